//! Quantities as people write them: `25us`, `1gbit`, `64KiB`.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Visitor};

use crate::SEC;

/// A time in nanoseconds. Written as `25us`, `1.5ms`, `2s`; at most [`Time::MOST`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// A rate in bits per second. Written as `1gbit`, `50mbit`, `unlimited`, which is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(pub u64);

/// A number of bytes. Written as `64KiB`, `4M`, `1472`; units are powers of 1,024.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(pub u64);

const TIMES: [(&str, u64); 4] = [
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];
const RATES: [(&str, u64); 4] = [
    ("gbit", 1_000_000_000),
    ("mbit", 1_000_000),
    ("kbit", 1_000),
    ("bit", 1),
];
const SIZES: [(&str, u64); 8] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("", 1),
    ("B", 1),
    ("G", 1 << 30),
    ("M", 1 << 20),
    ("k", 1 << 10),
];

impl Time {
    /// The longest that people can write: 1,000,000 s, some eleven days. What sums and multiples of it a
    /// simulation forms are far from overflowing.
    pub const MOST: Time = Time(1_000_000 * SEC);
}

/// Reads a number with a unit.
fn parse(text: &str, units: &[(&str, u64)], example: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = (text[..split].trim(), &text[split..]);
    let named = units
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let wrong = || {
        let names = units.iter().map(|(name, _)| *name);
        let names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
        let names = names.join(", ");
        format!("`{text}` is no number with a unit ({names}), as in `{example}`")
    };
    let &(_, factor) = named.ok_or_else(wrong)?;
    if let Ok(whole) = number.parse::<u64>() {
        return whole
            .checked_mul(factor)
            .ok_or_else(|| format!("`{text}` is too large"));
    }
    let value: f64 = number.parse().map_err(|_| wrong())?;
    let value = value * factor as f64;
    if !(0.0..9e18).contains(&value) {
        return Err(wrong());
    }
    Ok(value.round() as u64)
}

/// Writes a number with the largest unit that leaves it whole.
fn write(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let fits = |&&(_, factor): &&(&str, u64)| {
        factor == 1 || value >= factor && value.is_multiple_of(factor)
    };
    let (name, factor) = units
        .iter()
        .find(fits)
        .expect("every table has a unit of one");
    write!(f, "{}{name}", value / factor)
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.0, &TIMES)
    }
}

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let time = parse(text, &TIMES, "25us").map(Time)?;
        match time <= Time::MOST {
            true => Ok(time),
            false => Err(format!(
                "`{text}` is too large: write at most {}",
                Time::MOST
            )),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => "unlimited".fmt(f),
            rate => write(f, rate, &RATES),
        }
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "unlimited" => Ok(Rate(0)),
            text => match parse(text, &RATES, "1gbit")? {
                0 => Err(format!(
                    "`{text}` carries nothing: write 1bit or more, or `unlimited`"
                )),
                rate => Ok(Rate(rate)),
            },
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.0, &SIZES)
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text, &SIZES, "64KiB").map(Size)
    }
}

/// Serialised as the text that people write.
macro_rules! as_text {
    ($type:ty, $what:literal) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = from.deserialize_any($crate::units::Text($what))?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use as_text;

as_text!(Time, "a time in quotes, as in \"25us\"");
as_text!(Rate, "a rate in quotes, as in \"1gbit\"");
as_text!(Size, "a number of bytes, as in 1472 or \"64KiB\"");

/// Takes a string, or a whole number as if it had been in quotes.
pub(crate) struct Text(pub &'static str);

impl Visitor<'_> for Text {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
        Ok(text.into())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        for ns in [
            0,
            1,
            999,
            1_500,
            25_000,
            1_000_000,
            90_000_000_000,
            1_234_567,
        ] {
            assert_eq!(Time(ns).to_string().parse(), Ok(Time(ns)));
        }
        for bits in [0, 1, 50_000_000, 1_000_000_000, 2_500_000_000] {
            assert_eq!(Rate(bits).to_string().parse(), Ok(Rate(bits)));
        }
        for bytes in [0, 1, 1_472, 65_536, 3 << 19, 4 << 30] {
            assert_eq!(Size(bytes).to_string().parse(), Ok(Size(bytes)));
        }
    }

    #[test]
    fn people_write_fractions_and_leave_out_units_of_sizes() {
        assert_eq!("1.5ms".parse(), Ok(Time(1_500_000)));
        assert_eq!("2.5 Gbit".parse(), Ok(Rate(2_500_000_000)));
        assert_eq!("64k".parse(), Ok(Size(65_536)));
        assert_eq!("1472".parse(), Ok(Size(1_472)));
    }

    #[test]
    fn mistakes_are_explained() {
        let times = [
            "",
            "5",
            "ms",
            "-1ms",
            "1 week",
            "1e99s",
            "1000001s",
            "99999999999s",
        ];
        for text in times {
            let why = text.parse::<Time>().unwrap_err();
            assert!(why.contains("25us") || why.contains("too large"), "{why}");
        }
        assert!("1KB/s".parse::<Rate>().is_err());
        let why = "0gbit".parse::<Rate>().unwrap_err();
        assert!(why.contains("`unlimited`"), "{why}");
        assert!("64KB".parse::<Size>().is_err());
    }
}
