// tests/targets/ticker.c in Rust, one thread only; and
//     panic N        N panics, thrown and caught through panics()
// Built with the std of Debian or rustup, where panics unwind by libgcc_s.
use std::hint::black_box;
use std::io::{BufRead, Write};
use std::panic::{catch_unwind, set_hook};

#[inline(never)]
#[no_mangle]
pub fn tick(x: i64) -> i64 {
    black_box(x).wrapping_mul(3) + 1
}

#[inline(never)]
#[no_mangle]
pub fn panics(x: i64) -> i64 {
    if black_box(x) >= 0 {
        panic!("{}", x);
    }
    tick(x)
}

fn answer(text: &str) {
    println!("{}", text);
    std::io::stdout().flush().unwrap();
}

fn main() {
    set_hook(Box::new(|_| {}));
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let mut words = line.split(' ');
        let command = words.next().unwrap();
        let n: i64 = words.next().map_or(0, |word| word.parse().unwrap());
        match command {
            "ready" => answer("ready"),
            "tick" => {
                let sum: i64 = (0..n).map(tick).sum();
                answer(if sum == 3 * n * (n - 1) / 2 + n { "ticked" } else { "WRONG" });
            }
            "panic" => {
                let caught = (0..n).filter(|&x| catch_unwind(|| panics(x)).is_err()).count();
                answer(if caught as i64 == n { "panicked" } else { "WRONG" });
            }
            _ => answer("WRONG"),
        }
    }
}
