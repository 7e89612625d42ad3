//! Text as HTML.

/// Writes text so that it is text in HTML, also within quotes.
pub(super) fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for it in text.chars() {
        match it {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            it => escaped.push(it),
        }
    }
    escaped
}

/// Writes the Markdown of descriptions: paragraphs, `code` and *emphasis*.
pub(super) fn render_prose(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(str::trim).filter(|it| !it.is_empty());
    paragraphs.map(|it| format!("<p>{}</p>\n", render_inline(it))).collect()
}

fn render_inline(text: &str) -> String {
    let mut html = String::new();
    for (at, part) in text.split('`').enumerate() {
        if at % 2 == 1 {
            html += &format!("<code>{}</code>", escape_html(part));
            continue;
        }
        for (at, part) in part.split('*').enumerate() {
            let part = escape_html(part);
            html += &if at % 2 == 1 { format!("<em>{part}</em>") } else { part };
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_markup() {
        assert_eq!(escape_html("<a href='x'>\"&\""), "&lt;a href=&#39;x&#39;&gt;&quot;&amp;&quot;");
        assert_eq!(
            render_prose("A *session* of `a<b`.\n\n<script>"),
            "<p>A <em>session</em> of <code>a&lt;b</code>.</p>\n<p>&lt;script&gt;</p>\n"
        );
        assert_eq!(render_prose(""), "");
    }
}
