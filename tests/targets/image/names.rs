mod net {
    pub struct Conn<T> { pub v: T }
    impl<T: std::fmt::Debug> Conn<T> {
        #[inline(never)] pub fn read(&self) -> usize { std::hint::black_box(format!("{:?}", self.v).len()) }
    }
    pub trait Tr { fn go(&self) -> i32; fn dflt(&self) -> i32 { std::hint::black_box(3) } }
    impl Tr for Conn<u8> { #[inline(never)] fn go(&self) -> i32 { std::hint::black_box(self.v as i32) } }
    impl Tr for (i32, &str) { #[inline(never)] fn go(&self) -> i32 { std::hint::black_box(self.0) } }
    impl Tr for [u16; 3] { #[inline(never)] fn go(&self) -> i32 { std::hint::black_box(self[0] as i32) } }
    impl Tr for fn(i32, &mut [u8]) -> bool { #[inline(never)] fn go(&self) -> i32 { std::hint::black_box(9) } }
    impl Tr for Box<dyn for<'a> Fn(&'a str) -> i32 + Send> { #[inline(never)] fn go(&self) -> i32 { std::hint::black_box(9) } }
    impl Tr for unsafe extern "C" fn(*const u8, *mut i64) { #[inline(never)] fn go(&self) -> i32 { std::hint::black_box(8) } }
}
use net::Tr;
struct A<const N: usize, const C: char, const B: bool, const I: i8>;
impl<const N: usize, const C: char, const B: bool, const I: i8> A<N, C, B, I> { #[inline(never)] fn consts() -> usize { std::hint::black_box(N) } }
#[inline(never)] fn größe(x: i32) -> i32 { std::hint::black_box(x) }
#[inline(never)] fn generic<T: Copy, F: Fn(T) -> T>(x: T, f: F) -> T { let y = std::hint::black_box(f(x)); y }
#[inline(never)] fn apply(f: &dyn Fn(i32) -> i32) -> i32 { f(2) }
unsafe extern "C" fn ext(_: *const u8, _: *mut i64) {}
fn plain(_: i32, _: &mut [u8]) -> bool { true }
fn main() {
    let n = std::env::args().count() as i32;
    let c = net::Conn { v: 3u8 };
    let mut s = c.read() as i32 + c.go() + c.dflt() + net::Conn { v: "x" }.read() as i32;
    s += (n, "a").go() + [1u16, 2, 3].go() + (plain as fn(i32, &mut [u8]) -> bool).go() + (ext as unsafe extern "C" fn(*const u8, *mut i64)).go();
    s += A::<7, 'x', true, -3>::consts() as i32 + A::<0, '\'', false, 5>::consts() as i32;
    s += größe(n) + generic(n, |x| x + n) + generic(n as i64, |x| x * 2) as i32 + apply(&|x| x + n);
    let b: Box<dyn Fn(&str) -> i32 + Send> = Box::new(|s| s.len() as i32);
    s += b.go();
    std::thread::spawn(move || println!("{}", s)).join().unwrap();
}
