// Functions that are called with enums, options and results of many kinds, after each line of input.
use std::collections::HashMap;
use std::io::BufRead;

#[derive(Clone, Copy)]
pub enum Color {
    Red = 1,
    Green = 7,
}

pub struct Point {
    pub x: i32,
    pub y: i32,
}

pub enum Shape {
    Empty,
    Circle(f64),
    Line { from: Point, to: Point },
    Named(String),
}

pub enum Only {
    One(u32),
}

pub struct All<'a> {
    pub some: Option<u32>,
    pub none: Option<u32>,
    pub text: Option<String>,
    pub no_text: Option<String>,
    pub slice: Option<&'a str>,
    pub boxed: Option<Box<Point>>,
    pub no_box: Option<Box<Point>>,
    pub good: Result<i64, String>,
    pub bad: Result<i64, String>,
    pub empty: Shape,
    pub circle: Shape,
    pub line: Shape,
    pub named: Shape,
    pub only: Only,
    pub color: Color,
    pub nested: Option<Option<Color>>,
    pub signed: Option<i8>,
    pub shapes: Vec<Shape>,
    pub words: Vec<String>,
    pub map: HashMap<u32, u32>,
}

#[inline(never)]
#[no_mangle]
pub fn shapes(all: &All) -> usize {
    std::hint::black_box(all).shapes.len()
}

#[inline(never)]
#[no_mangle]
pub fn choose(shape: &Shape, maybe: Option<u32>) -> u32 {
    std::hint::black_box(shape);
    std::hint::black_box(maybe).unwrap_or(0)
}

fn main() {
    let all = All {
        some: Some(5),
        none: None,
        text: Some(String::from("a text")),
        no_text: None,
        slice: Some("slice"),
        boxed: Some(Box::new(Point { x: 1, y: 2 })),
        no_box: None,
        good: Ok(-7),
        bad: Err(String::from("broken")),
        empty: Shape::Empty,
        circle: Shape::Circle(2.5),
        line: Shape::Line { from: Point { x: 1, y: 2 }, to: Point { x: 3, y: 4 } },
        named: Shape::Named(String::from("square")),
        only: Only::One(9),
        color: Color::Green,
        nested: Some(None),
        signed: Some(-3),
        shapes: vec![Shape::Circle(0.5), Shape::Empty, Shape::Named(String::from("n"))],
        words: vec![String::from("x"), String::from("yz")],
        map: HashMap::from([(1, 2), (3, 4)]),
    };
    for _ in std::io::stdin().lock().lines() {
        shapes(&all);
        choose(&all.named, all.some);
        choose(&all.empty, None);
        std::hint::black_box(&Color::Red);
    }
}
