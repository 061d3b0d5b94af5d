//! What markdown looks like, and that it looks the same however it came.

use super::*;
use crate::tui::glyph;
use proptest::prelude::*;

fn rows(text: &str, width: usize) -> Vec<String> {
    let mut page = Page::default();
    let rows = page.of(text, width, false).iter();
    rows.map(Row::text).collect()
}

#[test]
fn blocks_look() {
    let text = "# Title\n\nA *short* **text** with `code`.\nNext line.\n\n- one\n- two\n  - deep\n\n3. three\n4. four\n\n> quoted\n> text\n\n```rust\nlet a = 1;\n\nlet b = 2;\n```\n\n---\nend [here](http://x.y) <b>";
    assert_eq!(
        rows(text, 40),
        [
            "# Title",
            "",
            "A short text with `code`.",
            "Next line.",
            "",
            "• one",
            "• two",
            "  • deep",
            "",
            "3. three",
            "4. four",
            "",
            "│ quoted",
            "│ text",
            "",
            "  ── rust",
            "  let a = 1;",
            "  ",
            "  let b = 2;",
            "",
            "────────────────────────────────────────",
            "end here (http://x.y) <b>",
        ]
    );
}

#[test]
fn tables_have_straight_columns() {
    let text = "| name | 意味 |\n|---|--:|\n| a | 漢字 |\n| long name | 1 |";
    assert_eq!(
        rows(text, 40),
        [
            "name      │ 意味",
            "──────────┼─────",
            "a         │ 漢字",
            "long name │    1"
        ]
    );
    assert_eq!(
        rows(text, 10),
        [
            "name │  意",
            "     │  味",
            "─────┼────",
            "a    │  漢",
            "     │  字",
            "long │   1",
            "name │    ",
        ]
    );
}

#[test]
fn a_definition_of_a_link_is_not_lost() {
    assert_eq!(
        rows("text\n\n[a]: http://x.y\n", 40),
        ["text", "", "[a]: http://x.y"]
    );
}

#[test]
fn an_empty_text_has_a_row() {
    assert_eq!(rows("", 10), [""]);
    assert_eq!(rows(" \n", 10), [""]);
}

#[test]
fn looks_are_kept() {
    let mut page = Page::default();
    let spans = &page.of("a **b *c*** `d`", 40, false)[0].spans;
    let looks: Vec<_> = spans
        .iter()
        .map(|span| {
            (
                span.text.as_str(),
                span.look.strong,
                span.look.emphasis,
                span.look.part,
            )
        })
        .collect();
    assert_eq!(
        looks,
        [
            ("a ", false, false, Part::Text),
            ("b ", true, false, Part::Text),
            ("c", true, true, Part::Text),
            (" ", false, false, Part::Text),
            ("`d`", false, false, Part::Code),
        ]
    );
}

/// Also where a block begins behind it, from which a text that grows is read on.
#[test]
fn a_carriage_return_alone_ends_a_line() {
    let text = "- one\n- \rwo\n  1. deep\n\n> quoted\n\nThe end.";
    let mut grown = Page::default();
    for (at, _) in text.char_indices() {
        grown.of(&text[..at], 16, true);
    }
    let grown = grown.of(text, 16, false);
    assert_eq!(grown, Page::default().of(text, 16, false));
    assert!(grown.iter().any(|row| row.text() == "wo"), "{grown:?}");
}

/// A row that is drawn once stays as it is while the text grows, but for the last ones.
#[test]
fn a_growing_text_is_calm() {
    let text = "Intro **bold words** here.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```rust\nfn main() {}\n```\n\n1. one\n2. two *em*\n\nThe end.";
    let mut page = Page::default();
    let mut before: Vec<String> = Vec::new();
    let mut shrank = 0;
    for (at, c) in text.char_indices() {
        let now: Vec<String> = page
            .of(&text[..at + c.len_utf8()], 40, true)
            .iter()
            .map(Row::text)
            .collect();
        // A row may grow; none that is not the last may become another.
        for (row, (old, new)) in before.iter().zip(&now).enumerate() {
            let last = row + 2 >= before.len();
            assert!(
                last || new.starts_with(old.trim_end()),
                "{old:?} became {new:?} at {:?}",
                &text[..at]
            );
        }
        shrank += usize::from(now.len() < before.len());
        before = now;
    }
    assert_eq!(shrank, 0, "no row is taken back");
    assert!(!before.iter().any(|row| row.contains("**")));
}

fn text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "word ",
        "\n",
        "\n\n",
        "- ",
        "* ",
        "1. ",
        "2. ",
        "# ",
        "> ",
        "```\n",
        "`",
        "**",
        "*",
        "_",
        "| ",
        "|",
        "|---|---|\n",
        "| a | b |\n",
        "---\n",
        "===\n",
        "    ",
        "  ",
        "\t",
        "漢字",
        "👩‍🚀",
        "e\u{301}",
        "[a](b)",
        "[a]: b\n",
        "<b>",
        "<div>\n",
        "\r\n",
        "\r",
        "\\",
        "[ ] ",
        "\u{1b}[0m",
        "&amp;",
        "~~~\n",
    ]);
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn growing_text_ends_as_if_it_had_come_at_once(text in text(), width in 1_usize..30) {
        let mut grown = Page::default();
        for (at, c) in text.char_indices() {
            grown.of(&text[..at + c.len_utf8()], width, true);
        }
        let grown = grown.of(&text, width, false).to_vec();
        prop_assert_eq!(grown, Page::default().of(&text, width, false).to_vec());
    }

    #[test]
    fn rows_fit_and_their_places_never_go_back(text in text(), width in 8_usize..40, open: bool) {
        let mut page = Page::default();
        let mut place = 0;
        for row in page.of(&text, width, open) {
            prop_assert!(row.width() <= width, "{:?}", row.text());
            prop_assert!(row.source >= place && row.source <= text.len());
            place = row.source;
        }
    }

    /// Nothing that was written is left out: every word of it is somewhere.
    #[test]
    fn no_word_is_lost(words in prop::collection::vec("[a-z]{1,8}", 1..20), marks in prop::collection::vec(
        prop::sample::select(vec![" ", "\n", "\n\n", "\n- ", "\n1. ", "\n> ", " **", "** ", "\n```\n", " | "]), 20),
    ) {
        let text: String = words.iter().zip(&marks).map(|(word, mark)| format!("{word}{mark}")).collect();
        let mut page = Page::default();
        // Spans are put together without blanks, since words may be broken over rows.
        let shown: String = page.of(&text, 200, false).iter().map(Row::text).collect();
        for word in &words {
            prop_assert!(shown.contains(word.as_str()), "{word} of {text:?} in {shown:?}");
        }
    }
}

#[test]
fn wide_characters_keep_the_columns() {
    for row in rows("| 漢 | b |\n|---|---|\n| 👩‍🚀👩‍🚀 | e\u{301} |", 30) {
        let at = row.find(['│', '┼']).map(|at| glyph::width(&row[..at]));
        assert_eq!(at, Some(5), "{row}");
    }
}
