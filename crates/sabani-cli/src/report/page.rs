//! A page that needs nothing else.

use std::fmt::Write;

const STYLE: &str = "
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
svg { width: 100%; font-size: 12px; fill: currentColor; }
.grid { stroke: currentColor; stroke-opacity: .15; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .1rem .6rem; text-align: right; border-bottom: 1px solid #8883; }
th:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
";

/// A page: its title, what it shows, and its plots and tables.
pub fn render(title: &str, what: &str, body: &str) -> String {
    let (title, what) = (escape(title), escape(what));
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\n\
         <style>{STYLE}</style>\n<h1>{title}</h1>\n<p>{what}</p>\n{body}</html>\n"
    )
}

/// The same page with notes below its title.
pub fn with_notes(page: &str, notes: &[String]) -> String {
    let notes = notes
        .iter()
        .map(|note| format!("<p>{}</p>\n", escape(note)));
    let end = "</h1>\n";
    page.replacen(end, &(end.to_owned() + &notes.collect::<String>()), 1)
}

/// A table; the first row is its header.
pub fn table(rows: &[Vec<String>]) -> String {
    let mut text = String::from("<table>\n");
    for (index, row) in rows.iter().enumerate() {
        let tag = if index == 0 { "th" } else { "td" };
        text.push_str("<tr>");
        for field in row {
            let _ = write!(text, "<{tag}>{}</{tag}>", escape(field));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</table>\n");
    text
}

/// Text as it may stand in a page.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("<&>"), "&lt;&amp;&gt;");
    }
}
