//! The `OpenAPI` document as one page that needs nothing else: no script, no font, no other file.

use std::fmt::{self, Display, Formatter, Write as _};

use serde_json::Value;

const STYLE: &str = include_str!("page.css");
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// The page for a document.
pub(super) fn render(document: &Value) -> String {
    Page(document).to_string()
}

struct Page<'a>(&'a Value);

impl Display for Page<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let info = &self.0["info"];
        let (title, version) = (text(&info["title"]), text(&info["version"]));
        write!(
            f,
            "<!doctype html><html lang=en><meta charset=utf-8>\
             <meta name=viewport content='width=device-width,initial-scale=1'>\
             <title>{title}</title><style>{STYLE}</style>\
             <main><h1>{title} <small>{version}</small></h1>"
        )?;
        for paragraph in info["description"].as_str().unwrap_or_default().split("\n\n") {
            write!(f, "<p>{}</p>", Text(paragraph))?;
        }
        write!(f, "<p>For programs: <a href=openapi.json>openapi.json</a>.</p>")?;
        for tag in list(&self.0["tags"]) {
            write!(f, "<h2>{}</h2><p>{}</p>", text(&tag["name"]), text(&tag["description"]))?;
            for (path, item) in entries(&self.0["paths"]) {
                for method in METHODS {
                    if list(&item[method]["tags"]).contains(&tag["name"]) {
                        self.operation(f, method, path, item)?;
                    }
                }
            }
        }
        write!(f, "<h2>Schemas</h2>")?;
        for (name, schema) in entries(&self.0["components"]["schemas"]) {
            write!(f, "<details id='{0}'><summary>{0}</summary>", Text(name))?;
            write!(f, "<p>{}</p>", text(&schema["description"]))?;
            write!(f, "{}</details>", Schema(schema))?;
        }
        write!(f, "</main></html>")
    }
}

impl Page<'_> {
    fn operation(
        &self,
        f: &mut Formatter<'_>,
        method: &str,
        path: &str,
        item: &Value,
    ) -> fmt::Result {
        let operation = &item[method];
        write!(
            f,
            "<details><summary><b>{}</b> <code>{}</code> {}</summary><p>{}</p>",
            method.to_uppercase(),
            Text(path),
            text(&operation["summary"]),
            text(&operation["description"]),
        )?;
        let parameters = list(&item["parameters"]).iter().chain(list(&operation["parameters"]));
        write!(f, "<dl>")?;
        for parameter in parameters.map(|parameter| self.follow(parameter)) {
            write!(
                f,
                "<dt><code>{}</code> <i>{}</i><dd>{} {}",
                text(&parameter["name"]),
                text(&parameter["in"]),
                text(&parameter["description"]),
                Schema(&parameter["schema"]),
            )?;
        }
        for (kind, content) in entries(&operation["requestBody"]["content"]) {
            write!(f, "<dt>body <code>{}</code><dd>{}", Text(kind), Schema(&content["schema"]))?;
        }
        for (status, response) in entries(&operation["responses"]) {
            let response = self.follow(response);
            write!(f, "<dt><b>{}</b><dd>{} ", Text(status), text(&response["description"]))?;
            for (kind, content) in entries(&response["content"]) {
                write!(f, "<code>{}</code> {} ", Text(kind), Schema(&content["schema"]))?;
            }
        }
        write!(f, "</dl></details>")
    }

    /// What a `$ref` points at, or the value itself.
    fn follow<'a>(&'a self, value: &'a Value) -> &'a Value {
        let target = value["$ref"].as_str().and_then(|path| path.strip_prefix('#'));
        target.and_then(|path| self.0.pointer(path)).unwrap_or(value)
    }
}

/// A schema in few words; what has a name is a link to it.
struct Schema<'a>(&'a Value);

impl Display for Schema<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let schema = self.0;
        if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
            return write!(f, "<a href='#{0}'>{0}</a>", Text(name));
        }
        if let Value::Array(words) = &schema["enum"] {
            return words.iter().try_for_each(|word| write!(f, "<code>{}</code> ", text(word)));
        }
        for choice in list(&schema["oneOf"]) {
            write!(f, "{} ", Schema(choice))?;
        }
        match &schema["type"] {
            Value::Array(kinds) => {
                kinds.iter().try_for_each(|kind| write!(f, "<i>{}</i> ", text(kind)))?;
            }
            kind => write!(f, "<i>{}</i> ", text(kind))?,
        }
        if schema["items"].is_object() {
            write!(f, "of {}", Schema(&schema["items"]))?;
        }
        if schema["properties"].is_object() {
            write!(f, "<dl>")?;
            for (name, property) in entries(&schema["properties"]) {
                let needed = list(&schema["required"]).iter().any(|needed| needed == name);
                write!(
                    f,
                    "<dt><code>{}</code>{}<dd>{} {}",
                    Text(name),
                    if needed { "" } else { " <i>optional</i>" },
                    Schema(property),
                    text(&property["description"]),
                )?;
            }
            write!(f, "</dl>")?;
        }
        Ok(())
    }
}

/// Text with what HTML would read as its own taken out, and what stands between backticks set as
/// code.
struct Text<'a>(&'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, part) in self.0.split('`').enumerate() {
            if 0 < at {
                f.write_str(if at % 2 == 1 { "<code>" } else { "</code>" })?;
            }
            for char in part.chars() {
                match char {
                    '<' => f.write_str("&lt;")?,
                    '&' => f.write_str("&amp;")?,
                    '\'' => f.write_str("&#39;")?,
                    char => f.write_char(char)?,
                }
            }
        }
        Ok(())
    }
}

fn text(value: &Value) -> Text<'_> {
    Text(value.as_str().unwrap_or_default())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_stays_text() {
        let written = Text("<b> & `don't`").to_string();

        assert_eq!(written, "&lt;b> &amp; <code>don&#39;t</code>");
    }
}
