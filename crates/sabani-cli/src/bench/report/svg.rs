//! A line plot over a logarithmic x axis.

use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 36.0;
const COLOURS: [&str; 6] = [
    "#0b6e99", "#d9730d", "#0f7b6c", "#ad1a72", "#6940a5", "#9f6b53",
];

/// One point of a line: x, median, least, greatest.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub x: f64,
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

/// One line.
#[derive(Debug)]
pub struct Line {
    pub name: &'static str,
    pub points: Vec<Point>,
}

/// A plot: both axes logarithmic, bars from the least to the greatest figure.
#[derive(Debug)]
pub struct Plot {
    pub lines: Vec<Line>,
    /// Where and with what the x axis is labelled.
    pub ticks: Vec<(f64, String)>,
    pub unit: &'static str,
}

impl Plot {
    /// Renders an `<svg>` element.
    pub fn render(&self) -> String {
        let x = Axis::over(self.points().map(|p| p.x), LEFT, WIDTH - RIGHT);
        let (low, high) = (self.points().map(|p| p.min), self.points().map(|p| p.max));
        let y = Axis::over(low.chain(high), HEIGHT - BOTTOM, TOP);
        let mut svg = format!(r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">"#);
        self.draw_axes(&mut svg, &x, &y);
        for (index, line) in self.lines.iter().enumerate() {
            draw_line(&mut svg, line, index, &x, &y);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.lines.iter().flat_map(|line| &line.points)
    }

    fn draw_axes(&self, svg: &mut String, x: &Axis, y: &Axis) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for decade in y.decades() {
            let at = y.place(decade);
            let label = crate::units::format_figure(decade);
            let _ = write!(
                svg,
                r#"<line class="grid" x1="{LEFT}" x2="{right}" y1="{at:.1}" y2="{at:.1}"/><text x="{:.1}" y="{:.1}" text-anchor="end">{label}</text>"#,
                LEFT - 6.0,
                at + 4.0
            );
        }
        for (tick, label) in &self.ticks {
            let at = x.place(*tick);
            let _ = write!(
                svg,
                r#"<line class="grid" x1="{at:.1}" x2="{at:.1}" y1="{TOP}" y2="{bottom}"/><text x="{at:.1}" y="{:.1}" text-anchor="middle">{label}</text>"#,
                bottom + 16.0
            );
        }
        let _ = write!(
            svg,
            r#"<text x="4" y="{:.1}">{}</text>"#,
            TOP + 4.0,
            self.unit
        );
    }
}

fn draw_line(svg: &mut String, line: &Line, index: usize, x: &Axis, y: &Axis) {
    let colour = COLOURS[index % COLOURS.len()];
    let mut path = String::new();
    for point in &line.points {
        let at = x.place(point.x);
        let _ = write!(path, "{at:.1},{:.1} ", y.place(point.median));
        let _ = write!(
            svg,
            r#"<line stroke="{colour}" x1="{at:.1}" x2="{at:.1}" y1="{:.1}" y2="{:.1}"/><circle fill="{colour}" cx="{at:.1}" cy="{:.1}" r="3"/>"#,
            y.place(point.min),
            y.place(point.max),
            y.place(point.median)
        );
    }
    let legend = TOP + 12.0 + 18.0 * index as f64;
    let _ = write!(
        svg,
        r#"<polyline fill="none" stroke="{colour}" stroke-width="2" points="{}"/><text x="{:.1}" y="{legend:.1}" style="fill:{colour}">{}</text>"#,
        path.trim_end(),
        WIDTH - RIGHT + 12.0,
        line.name
    );
}

/// A logarithmic axis from one coordinate to another.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let positive = values.filter(|value| *value > 0.0);
        let (low, high) = positive.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        match low < high {
            true => Self {
                low,
                high,
                from,
                to,
            },
            false if high > 0.0 => Self {
                low: high / 2.0,
                high: high * 2.0,
                from,
                to,
            },
            false => Self {
                low: 1.0,
                high: 10.0,
                from,
                to,
            },
        }
    }

    fn place(&self, value: f64) -> f64 {
        let part = (value.max(self.low) / self.low).ln() / (self.high / self.low).ln();
        self.from + part * (self.to - self.from)
    }

    /// 1, 2 and 5 times each power of ten on the axis.
    fn decades(&self) -> impl Iterator<Item = f64> {
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        (first..=last)
            .flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power)))
            .filter(|value| (self.low..=self.high).contains(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_maps_ends_to_ends() {
        let axis = Axis::over([1.0, 100.0].into_iter(), 0.0, 10.0);
        assert_eq!(
            (axis.place(1.0), axis.place(10.0), axis.place(100.0)),
            (0.0, 5.0, 10.0)
        );
        assert_eq!(
            axis.decades().collect::<Vec<_>>(),
            [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]
        );
    }

    #[test]
    fn a_single_point_is_drawn() {
        let point = Point {
            x: 4.0,
            median: 2.0,
            min: 2.0,
            max: 2.0,
        };
        let plot = Plot {
            lines: vec![Line {
                name: "a",
                points: vec![point],
            }],
            ticks: vec![(4.0, "4 B".into())],
            unit: "µs",
        };
        assert!(!plot.render().contains("NaN"));
    }
}
