// Eight goroutines on four threads, which are preempted, meet garbage collections, are moved to
// larger stacks, and recover from nil pointers, ROUNDS times each. Prints "right" and how often
// tick() was called.
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
)

const goroutines, ticks = 8, 1000

//go:noinline
func leaf(x uint64) uint64 { return x*3 + 1 }

//go:noinline
func tick(x uint64) uint64 { return leaf(x) + leaf(x+1) }

// Long enough for several preemptions, at any instruction of leaf() or of its own.
//
//go:noinline
func spin() uint64 {
	var sum uint64
	for i := uint64(0); i < 30e6; i++ {
		sum = leaf(sum ^ i)
	}
	return sum
}

type node struct{ left, right *node }

func tree(depth int) *node {
	if depth == 0 {
		return &node{}
	}
	return &node{tree(depth - 1), tree(depth - 1)}
}

func (n *node) count() int {
	if n == nil {
		return 0
	}
	return 1 + n.left.count() + n.right.count()
}

//go:noinline
func deep(n int) int {
	var frame [64]byte
	frame[n%64] = 1
	if n == 0 {
		return int(frame[0])
	}
	return deep(n-1) + int(frame[n%64])
}

//go:noinline
func (n *node) child() *node { return n.left }

func recovers(n *node) (recovered bool) {
	defer func() { recovered = recover() != nil }()
	n.child()
	return false
}

func check(name string, ok bool) {
	if !ok {
		fmt.Println("WRONG", name)
		os.Exit(1)
	}
}

func round(spun uint64) {
	check("spin", spin() == spun)
	check("tree", tree(12).count() == 1<<13-1)
	depths := make(chan int)
	for i := 1; i <= 10; i++ {
		go func(n int) { depths <- deep(n) - n }(1000 * i)
	}
	for i := 1; i <= 10; i++ {
		check("deep", <-depths == 1)
	}
	for i := 0; i < 100; i++ {
		check("recover", recovers(nil) && !recovers(&node{}))
	}
	var sum uint64
	for i := uint64(0); i < ticks; i++ {
		sum += tick(i)
	}
	check("tick", sum == 3*ticks*(ticks-1)+5*ticks)
}

func main() {
	rounds, _ := strconv.Atoi(os.Args[1])
	runtime.GOMAXPROCS(4)
	debug.SetGCPercent(1)
	spun := spin()
	var all sync.WaitGroup
	for i := 0; i < goroutines; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for r := 0; r < rounds; r++ {
				round(spun)
			}
		}()
	}
	all.Wait()
	fmt.Println("right", goroutines*rounds*ticks)
}
