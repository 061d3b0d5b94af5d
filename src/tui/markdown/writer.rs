//! From the events of the markdown parser to rows. Line breaks and empty lines stay where the model put them.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::calm::calm;
use super::flat::{self, Flat, Look, Part, Row};
use super::table::Table;
use crate::tui::glyph;

/// Columns that code stands further in.
const CODE: &str = "  ";

/// Reads `text` from byte `from` on, where a top-level block begins, and appends its rows and the places of its blocks.
pub fn write(
    text: &str,
    from: usize,
    width: usize,
    open: bool,
    rows: &mut Vec<Row>,
    blocks: &mut Vec<(usize, usize)>,
) {
    let tail = &text[from..];
    let tail = match open {
        true => calm(tail),
        false => tail.into(),
    };
    // A definition of a link would make no event, and change what was read before it. So there are none.
    let tail = tail.replace("]:", &format!("]{}", flat::COLON));
    let mut writer = Writer {
        text,
        width,
        rows,
        margins: Vec::new(),
        looks: vec![Look::default()],
        flat: None,
        code: None,
        table: None,
        links: Vec::new(),
        lists: Vec::new(),
    };
    let mut depth = 0_usize;
    let mut covered = 0;
    for (event, range) in Parser::new_ext(&tail, Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS)
        .into_offset_iter()
    {
        if depth == 0 && range.start >= covered {
            // Its line from the beginning on, since what it is hangs on how far it stands in.
            let line = tail[..range.start].rfind(['\n', '\r']);
            let line = line.map_or(0, |at| at + 1);
            blocks.push((from + line, writer.rows.len()));
            covered = range.end;
        }
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
        writer.event(event, from + range.start);
        if depth == 0 {
            writer.flush();
        }
    }
    // What was only added to finish the text is no place to begin at.
    blocks.retain(|&(at, _)| at < text.len());
}

/// How deep quotes and items are drawn in each other. No page is so wide that more can be seen, and a model that only opens them
/// would cost more with every level.
const DEEPEST: usize = 64;

/// Columns in front of the rows of an item or a quote.
struct Margin {
    /// In front of its first row, once.
    first: Option<String>,
    /// In front of the others.
    rest: String,
}

struct Writer<'a> {
    text: &'a str,
    width: usize,
    rows: &'a mut Vec<Row>,
    margins: Vec<Margin>,
    looks: Vec<Look>,
    /// The text that is being gathered.
    flat: Option<Flat>,
    /// Code that is being gathered, and its language.
    code: Option<(Flat, String)>,
    table: Option<Table>,
    /// Addresses of the links that are open, and where their text begins.
    links: Vec<(String, usize)>,
    /// The number of the next item of each list that is open; none of one without numbers.
    lists: Vec<Option<u64>>,
}

impl Writer<'_> {
    fn event(&mut self, event: Event<'_>, at: usize) {
        match event {
            Event::Start(tag) => self.start(tag, at),
            Event::End(tag) => self.end(tag, at),
            Event::Text(text) => match &mut self.code {
                Some((code, _)) => code.push(
                    &text,
                    Look {
                        part: Part::Code,
                        ..Look::default()
                    },
                    at,
                ),
                None => self.push(&text, self.look(), at),
            },
            // With their marks: they look the same before the closing one has come, and without colour.
            Event::Code(text) => {
                let look = Look {
                    part: Part::Code,
                    ..self.look()
                };
                self.push(&format!("`{text}`"), look, at);
            }
            Event::Html(text) | Event::InlineHtml(text) => self.push(&text, Look::MARK, at),
            Event::SoftBreak | Event::HardBreak => self.push("\n", self.look(), at),
            Event::TaskListMarker(done) => {
                let mark = if done { "[x] " } else { "[ ] " };
                self.push(mark, Look::MARK, at);
            }
            Event::Rule => {
                self.begin(at);
                let mut flat = Flat::default();
                flat.push(&"─".repeat(self.room().min(40)), Look::MARK, at);
                self.put(flat);
            }
            // Not asked for.
            Event::InlineMath(_) | Event::DisplayMath(_) | Event::FootnoteReference(_) => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>, at: usize) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.open(at),
            Tag::Heading { level, .. } => {
                self.open(at);
                let look = Look {
                    part: Part::Heading,
                    strong: true,
                    emphasis: false,
                };
                self.push(&format!("{} ", "#".repeat(level as usize)), look, at);
                self.looks.push(look);
            }
            Tag::BlockQuote(_) => {
                self.flush();
                let deep = self.margins.len() >= DEEPEST;
                if !deep {
                    self.begin(at);
                }
                self.margins.push(Margin {
                    first: None,
                    rest: if deep { "" } else { "│ " }.to_owned(),
                });
            }
            Tag::CodeBlock(kind) => {
                self.flush();
                self.begin(at);
                let language = match kind {
                    CodeBlockKind::Fenced(language) => language.into_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((Flat::default(), language));
            }
            Tag::List(first) => {
                self.flush();
                self.lists.push(first);
            }
            Tag::Item if self.margins.len() >= DEEPEST => {
                self.margins.push(Margin {
                    first: None,
                    rest: String::new(),
                });
            }
            Tag::Item => {
                self.begin(at);
                let first = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let first = format!("{number}. ");
                        *number += 1;
                        first
                    }
                    _ => "• ".to_owned(),
                };
                let rest = " ".repeat(glyph::width(&first));
                self.margins.push(Margin {
                    first: Some(first),
                    rest,
                });
            }
            Tag::Table(alignments) => {
                self.flush();
                self.begin(at);
                self.table = Some(Table {
                    alignments,
                    rows: Vec::new(),
                });
            }
            Tag::TableHead | Tag::TableRow => {
                let strong = matches!(tag, Tag::TableHead);
                if let Some(table) = &mut self.table {
                    table.rows.push(Vec::new());
                }
                let look = Look {
                    strong,
                    ..Look::default()
                };
                self.looks.push(look);
            }
            Tag::TableCell => self.flat = Some(Flat::default()),
            Tag::Strong => self.looks.push(Look {
                strong: true,
                ..self.look()
            }),
            Tag::Emphasis => self.looks.push(Look {
                emphasis: true,
                ..self.look()
            }),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                let start = self.flat.as_ref().map_or(0, |flat| flat.text().len());
                self.links.push((dest_url.into_string(), start));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd, at: usize) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.flush(),
            TagEnd::Heading(_) => {
                self.looks.pop();
                self.flush();
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.margins.pop();
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::Item => {
                self.flush();
                // An item without text still has its mark.
                if self
                    .margins
                    .last()
                    .is_some_and(|margin| margin.first.is_some())
                {
                    self.put(Flat::default());
                }
                self.margins.pop();
            }
            TagEnd::Table => self.end_table(),
            TagEnd::TableHead | TagEnd::TableRow => {
                self.looks.pop();
            }
            TagEnd::TableCell => {
                let cell = self.flat.take().unwrap_or_default();
                if let Some(row) = self.table.as_mut().and_then(|table| table.rows.last_mut()) {
                    row.push(cell);
                }
            }
            TagEnd::Strong | TagEnd::Emphasis => {
                self.looks.pop();
            }
            TagEnd::Link | TagEnd::Image => self.end_link(at),
            _ => {}
        }
    }

    fn end_link(&mut self, at: usize) {
        let Some((address, start)) = self.links.pop() else {
            return;
        };
        let text = self.flat.as_ref().and_then(|flat| flat.text().get(start..));
        if text != Some(address.as_str()) && !address.is_empty() {
            self.push(&format!(" ({address})"), Look::MARK, at);
        }
    }

    fn look(&self) -> Look {
        self.looks.last().copied().unwrap_or_default()
    }

    fn push(&mut self, text: &str, look: Look, at: usize) {
        if self.flat.is_none() {
            // The text of an item without empty lines is no paragraph.
            self.open(at);
        }
        if let Some(flat) = &mut self.flat {
            flat.push(text, look, at);
        }
    }

    fn open(&mut self, at: usize) {
        self.flush();
        self.begin(at);
        self.flat = Some(Flat::default());
    }

    fn flush(&mut self) {
        if let Some(mut flat) = self.flat.take() {
            flat.trim_end();
            self.put(flat);
        }
    }

    fn end_code(&mut self) {
        let Some((mut code, language)) = self.code.take() else {
            return;
        };
        self.margins.push(Margin {
            first: None,
            rest: CODE.to_owned(),
        });
        if !language.trim().is_empty() {
            let mut head = Flat::default();
            head.push(
                &format!("── {}", language.trim()),
                Look::MARK,
                self.rows.last().map_or(0, |row| row.source),
            );
            self.put(head);
        }
        code.trim_end();
        self.put(code);
        self.margins.pop();
    }

    fn end_table(&mut self) {
        let Some(table) = self.table.take() else {
            return;
        };
        match table.rows(self.room()) {
            Some(rows) => self.rows_out(rows),
            // More columns than fit: cell after cell.
            None => {
                for cell in table.rows.into_iter().flatten() {
                    self.put(cell);
                }
            }
        }
    }

    /// An empty row before what begins at byte `at`, if an empty line stands there in the source.
    fn begin(&mut self, at: usize) {
        let before = &self.text[..at.min(self.text.len())];
        let blank = |c: char| c.is_whitespace() || c == '>';
        let gap = &before[before.trim_end_matches(blank).len()..];
        let apart = gap.matches('\n').count() > 1 && !before.trim().is_empty();
        let last = self.rows.last().is_some_and(|row| !row.spans.is_empty());
        if apart && last {
            let mut row = Row {
                source: at.saturating_sub(1),
                ..Row::default()
            };
            // A quote goes on over an empty row.
            for margin in self.margins.iter().filter(|margin| margin.first.is_none()) {
                row.push(&margin.rest, Look::MARK);
            }
            self.monotonic(row);
        }
    }

    /// Columns beside the margins.
    fn room(&self) -> usize {
        self.width.saturating_sub(self.margin()).max(1)
    }

    /// Columns of the margins; no more than half, however deep a list is.
    fn margin(&self) -> usize {
        let all = self.margins.iter().map(|margin| glyph::width(&margin.rest));
        all.sum::<usize>().min(self.width / 2)
    }

    fn put(&mut self, flat: Flat) {
        let rows = flat.rows(self.room());
        self.rows_out(rows);
    }

    fn rows_out(&mut self, rows: Vec<Row>) {
        let most = self.margin();
        for row in rows {
            let mut whole = Row {
                source: row.source,
                ..Row::default()
            };
            let mut margin = String::new();
            for part in &mut self.margins {
                margin.push_str(&part.first.take().unwrap_or_else(|| part.rest.clone()));
            }
            whole.push(&glyph::shown(&margin, most), Look::MARK);
            for span in row.spans {
                whole.push(&span.text, span.look);
            }
            self.monotonic(whole);
        }
    }

    /// Places never go back from one row to the next, so that a row can be found by its place.
    fn monotonic(&mut self, mut row: Row) {
        let before = self.rows.last().map_or(0, |row| row.source);
        row.source = row.source.max(before).min(self.text.len());
        self.rows.push(row);
    }
}
