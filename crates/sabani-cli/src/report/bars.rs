//! Stacked bars: how parts share a whole.

use std::fmt::Write;

use super::{page::escape, svg::COLOURS};
use crate::units::format_figure;

const WIDTH: f64 = 720.0;
const LEFT: f64 = 120.0;
const RIGHT: f64 = 70.0;
const BAR: f64 = 22.0;
const GAP: f64 = 10.0;
const LEGEND: f64 = 44.0;
const LEGEND_COLUMNS: usize = 6;

/// What one part of each bar is.
#[derive(Debug)]
pub struct Part {
    pub name: String,
    /// Which of the [`COLOURS`].
    pub colour: usize,
    pub pale: bool,
}

/// One bar: its name and its parts.
#[derive(Debug)]
pub struct Bar {
    pub name: String,
    pub parts: Vec<f64>,
}

/// Bars of one length, each divided as its parts are; behind each its sum.
#[derive(Debug)]
pub struct Bars {
    pub parts: Vec<Part>,
    pub bars: Vec<Bar>,
    pub unit: &'static str,
}

impl Bars {
    /// Renders an `<svg>` element.
    pub fn render(&self) -> String {
        let height = LEGEND + (BAR + GAP) * self.bars.len() as f64;
        let mut svg = format!(r#"<svg viewBox="0 0 {WIDTH} {height}" role="img">"#);
        for (index, part) in self.parts.iter().enumerate() {
            let column = (WIDTH - LEFT) / LEGEND_COLUMNS as f64;
            let x = LEFT + (index % LEGEND_COLUMNS) as f64 * column;
            let y = (index / LEGEND_COLUMNS) as f64 * 16.0;
            draw_part(&mut svg, part, [x, y, 10.0, 10.0], &part.name);
            let _ = write!(
                svg,
                r#"<text x="{:.1}" y="{:.1}">{}</text>"#,
                x + 14.0,
                y + 9.0,
                escape(&part.name)
            );
        }
        for (row, bar) in self.bars.iter().enumerate() {
            self.draw(&mut svg, bar, LEGEND + (BAR + GAP) * row as f64);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn draw(&self, svg: &mut String, bar: &Bar, top: f64) {
        let sum: f64 = bar.parts.iter().sum();
        let middle = top + BAR / 2.0 + 4.0;
        let _ = write!(
            svg,
            r#"<text x="0" y="{middle:.1}">{}</text><text x="{:.1}" y="{middle:.1}">{} {}</text>"#,
            escape(&bar.name),
            WIDTH - RIGHT + 6.0,
            format_figure(sum),
            self.unit
        );
        let mut x = LEFT;
        for (part, value) in self.parts.iter().zip(&bar.parts) {
            let width = match sum > 0.0 {
                true => value / sum * (WIDTH - LEFT - RIGHT),
                false => 0.0,
            };
            let told = format!("{}: {} {}", part.name, format_figure(*value), self.unit);
            draw_part(svg, part, [x, top, width, BAR], &told);
            x += width;
        }
    }
}

fn draw_part(svg: &mut String, part: &Part, [x, y, width, height]: [f64; 4], told: &str) {
    let colour = COLOURS[part.colour % COLOURS.len()];
    let opacity = if part.pale { 0.5 } else { 1.0 };
    let _ = write!(
        svg,
        r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{colour}" fill-opacity="{opacity}"><title>{}</title></rect>"#,
        escape(told)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fill_the_bar() {
        let part = |name: &str| Part {
            name: name.into(),
            colour: 0,
            pale: false,
        };
        let bars = Bars {
            parts: vec![part("a"), part("b")],
            bars: vec![Bar {
                name: "4 B".into(),
                parts: vec![100.0, 300.0],
            }],
            unit: "ns",
        };
        let svg = bars.render();
        let whole = WIDTH - LEFT - RIGHT;
        for part in [0.25, 0.75] {
            let width = format!(r#"width="{:.1}""#, part * whole);
            assert!(svg.contains(&width), "{svg}");
        }
        assert!(svg.contains("400 ns"), "{svg}");
    }
}
