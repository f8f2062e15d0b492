//! A line plot.

use std::fmt::Write;

use crate::units::format_figure;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 36.0;
/// Colours that are told apart on light and on dark.
pub const COLOURS: [&str; 6] = [
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

impl Point {
    /// A single figure.
    pub fn single(x: f64, y: f64) -> Self {
        Self {
            x,
            median: y,
            min: y,
            max: y,
        }
    }
}

/// One line.
#[derive(Debug)]
pub struct Line {
    pub name: String,
    pub points: Vec<Point>,
    pub style: Style,
}

/// How a line's points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Joined, each with a bar from the least to the greatest figure.
    Bars,
    /// Joined, and nothing else: for many.
    Plain,
    /// Not joined: for what has no order.
    Dots,
}

/// How an axis places values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    Logarithmic,
    /// From zero on.
    Linear,
}

/// A plot.
#[derive(Debug)]
pub struct Plot {
    pub lines: Vec<Line>,
    /// Of both axes.
    pub scale: Scale,
    /// Where and with what the x axis is labelled; empty: with its own values.
    pub ticks: Vec<(f64, String)>,
    pub unit: &'static str,
}

impl Plot {
    /// Renders an `<svg>` element.
    pub fn render(&self) -> String {
        let axis = |values: &mut dyn Iterator<Item = f64>, from, to| match self.scale {
            Scale::Logarithmic => Axis::over(values, from, to),
            Scale::Linear => Axis::linear(values, from, to),
        };
        let x = axis(&mut self.points().map(|p| p.x), LEFT, WIDTH - RIGHT);
        let (low, high) = (self.points().map(|p| p.min), self.points().map(|p| p.max));
        let y = axis(&mut low.chain(high), HEIGHT - BOTTOM, TOP);
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
        for value in y.round_values() {
            let at = y.place(value);
            let label = format_figure(value);
            let _ = write!(
                svg,
                r#"<line class="grid" x1="{LEFT}" x2="{right}" y1="{at:.1}" y2="{at:.1}"/><text x="{:.1}" y="{:.1}" text-anchor="end">{label}</text>"#,
                LEFT - 6.0,
                at + 4.0
            );
        }
        let own = match self.ticks.is_empty() {
            true => x.round_values(),
            false => Vec::new(),
        };
        let own = own.into_iter().map(|value| (value, format_figure(value)));
        for (tick, label) in self.ticks.iter().cloned().chain(own) {
            let at = x.place(tick);
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
        let (at, level) = (x.place(point.x), y.place(point.median));
        let _ = write!(path, "{at:.1},{level:.1} ");
        if line.style == Style::Bars {
            let _ = write!(
                svg,
                r#"<line stroke="{colour}" x1="{at:.1}" x2="{at:.1}" y1="{:.1}" y2="{:.1}"/>"#,
                y.place(point.min),
                y.place(point.max),
            );
        }
        let radius = match line.style {
            Style::Bars => 3.0,
            Style::Dots => 1.5,
            Style::Plain => continue,
        };
        let _ = write!(
            svg,
            r#"<circle fill="{colour}" cx="{at:.1}" cy="{level:.1}" r="{radius}"/>"#
        );
    }
    if line.style != Style::Dots {
        let _ = write!(
            svg,
            r#"<polyline fill="none" stroke="{colour}" stroke-width="2" points="{}"/>"#,
            path.trim_end(),
        );
    }
    let _ = write!(
        svg,
        r#"<text x="{:.1}" y="{:.1}" style="fill:{colour}">{}</text>"#,
        WIDTH - RIGHT + 12.0,
        TOP + 12.0 + 18.0 * index as f64,
        super::page::escape(&line.name)
    );
}

/// An axis with fewer of them than this can't be read.
const LEAST_LABELS: usize = 3;

/// An axis from one coordinate to another.
struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// Logarithmic, over these values.
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let positive = values.filter(|value| *value > 0.0);
        let (low, high) = positive.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        let (low, high) = match low < high {
            true => (low, high),
            false if high > 0.0 => (high / 2.0, high * 2.0),
            false => (1.0, 10.0),
        };
        Self {
            scale: Scale::Logarithmic,
            low,
            high,
            from,
            to,
        }
    }

    /// Linear, from zero to the largest of these values.
    fn linear(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let high = values.fold(0.0, f64::max);
        Self {
            scale: Scale::Linear,
            low: 0.0,
            high: if high > 0.0 { high } else { 1.0 },
            from,
            to,
        }
    }

    fn place(&self, value: f64) -> f64 {
        let part = match self.scale {
            Scale::Logarithmic => {
                (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
            }
            Scale::Linear => value / self.high,
        };
        self.from + part * (self.to - self.from)
    }

    /// Values to label the axis with.
    fn round_values(&self) -> Vec<f64> {
        match self.scale {
            Scale::Logarithmic => match self.decades().collect::<Vec<_>>() {
                few if few.len() < LEAST_LABELS => self.steps().collect(),
                enough => enough,
            },
            Scale::Linear => self.steps().collect(),
        }
    }

    /// 1, 2 and 5 times each power of ten on the axis.
    fn decades(&self) -> impl Iterator<Item = f64> {
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        (first..=last)
            .flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power)))
            .filter(|value| (self.low..=self.high).contains(value))
    }

    /// Four to ten equal steps of 1, 2 or 5 times a power of ten.
    fn steps(&self) -> impl Iterator<Item = f64> {
        let span = self.high - self.low;
        let power = 10_f64.powf((span / 4.0).log10().floor());
        let fits = |step: &f64| span / (step * power) >= 4.0;
        let step = [5.0, 2.0, 1.0].into_iter().find(fits).unwrap_or(1.0) * power;
        let (first, last) = ((self.low / step).ceil(), (self.high / step).floor());
        (0..=(last - first) as u32).map(move |index| (first + f64::from(index)) * step)
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
    fn an_axis_within_a_decade_has_labels() {
        let axis = Axis::over([61.0, 98.0].into_iter(), 0.0, 10.0);
        assert_eq!(
            axis.round_values(),
            [65.0, 70.0, 75.0, 80.0, 85.0, 90.0, 95.0]
        );
        let axis = Axis::over([0.4, 0.41].into_iter(), 0.0, 10.0);
        assert!(axis.round_values().len() >= 3);
    }

    #[test]
    fn a_linear_axis_begins_at_zero() {
        let axis = Axis::linear([30.0, 100.0].into_iter(), 0.0, 10.0);
        assert_eq!((axis.place(0.0), axis.place(100.0)), (0.0, 10.0));
        let steps: Vec<_> = axis.steps().collect();
        assert_eq!(steps, [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        let axis = Axis::linear([].into_iter(), 0.0, 10.0);
        assert_eq!(axis.steps().count(), 6);
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
                name: "a".into(),
                points: vec![point],
                style: Style::Bars,
            }],
            scale: Scale::Logarithmic,
            ticks: vec![(4.0, "4 B".into())],
            unit: "µs",
        };
        assert!(!plot.render().contains("NaN"));
    }
}
