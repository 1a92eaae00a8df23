// Goroutines whose stacks grow and move, panics, maps, the collector.
package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
)

type node struct{ left, right *node }

func tree(depth int) *node {
	if depth == 0 {
		return nil
	}
	return &node{tree(depth - 1), tree(depth - 1)}
}

func count(n *node) int {
	if n == nil {
		return 0
	}
	return 1 + count(n.left) + count(n.right)
}

func deep(n int) int {
	if n == 0 {
		panic("bottom")
	}
	return 1 + deep(n-1)
}

func caught(n int) (text string) {
	defer func() { text = fmt.Sprint(recover(), n) }()
	return strconv.Itoa(deep(n))
}

func round() string {
	h := sha256.New()
	results := make(chan int)
	for i := 0; i < 50; i++ {
		go func(i int) { results <- count(tree(i % 12)) }(i)
	}
	sum := 0
	for i := 0; i < 50; i++ {
		sum += <-results
	}
	fmt.Fprint(h, sum)
	for i := 0; i < 300; i++ {
		fmt.Fprint(h, caught(i))
	}
	words := []string{}
	seen := map[string]int{}
	for i := 0; i < 20000; i++ {
		word := strconv.FormatInt(int64(i*7919%10007), 36)
		words = append(words, word)
		seen[word]++
	}
	sort.Strings(words)
	fmt.Fprint(h, strings.Join(words, " "), len(seen))
	return fmt.Sprintf("%x", h.Sum(nil))
}

func main() {
	first := round()
	fmt.Println(first)
	for n := 1; ; n++ {
		if _, err := os.Stat(os.Args[1]); n >= 3 && err == nil {
			break
		}
		if round() != first {
			fmt.Println("MISMATCH in round", n)
			os.Exit(1)
		}
	}
	fmt.Println("done")
}
