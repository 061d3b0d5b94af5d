//! What a model writes and what a terminal sends, changed by seed: markdown looks the same however it came and holds nothing that
//! a terminal obeys, keys that come in pieces are neither lost nor waited for for ever, a damaged draft is none. Files of the
//! other formats go the same way in `tests/mutations`, with the same `K3_CAMPAIGN` and `K3_SEED`.

use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};

use super::escape;
use super::glyph::shown;
use super::markdown::{Page, Row};
use super::unsent::Unsent;

#[path = "../../tests/support/draw.rs"]
#[allow(dead_code)]
mod draw;
#[path = "../../tests/support/mutate.rs"]
#[allow(dead_code)]
mod mutate;

use mutate::Mutator;

/// Changed texts in every run.
const FEW: u32 = 100;

const TEXT: &str = "# Title\n\nA *short* **text** with `code` and [a link](http://x.y/z).\n\n- one\n- two\n  1. deep\n\n> quoted\n\n\
    ```rust\nlet a = \"中文\";\n```\n\n| name | 意味 |\n|---|--:|\n| a | 👩‍🚀 |\n\n---\n\\* <b>end</b> e\u{301}\n";

const WORDS: &[&str] = &[
    "\u{1b}]0;title\u{7}",
    "\u{1b}[2J",
    "\u{9b}31m",
    "\u{202e}",
    "\r\n",
    "```\n",
    "~~~\n",
    "| a | b |\n|---|---|\n",
    "[a]: b\n",
    "**",
    "> > > ",
    "1. ",
    "\t",
    "&#27;",
    "&#x9b;",
    "<div>",
    "\u{0}",
];

/// Runs `read` on changed copies of `good`; it gives how long reading once took. The slowest is told; in a campaign two seconds
/// are a failure.
fn campaign(name: &str, good: &[u8], words: &[&str], mut read: impl FnMut(&[u8], u32) -> Duration) {
    let set = |variable| std::env::var(variable).ok()?.parse::<u32>().ok();
    let (count, seed) = (set("K3_CAMPAIGN"), set("K3_SEED").unwrap_or(1));
    let mut slowest = Duration::ZERO;
    for case in 0..count.unwrap_or(FEW) {
        let mut file = good.to_vec();
        let case = seed.wrapping_add(case);
        Mutator::new(case, words).mutate(&mut file);
        let took = read(&file, case);
        slowest = slowest.max(took);
        let hangs = count.is_some() && took > Duration::from_secs(2);
        assert!(!hangs, "{name}, K3_SEED={case}: {took:?}");
    }
    let count = count.unwrap_or(FEW);
    let slowest = slowest.as_secs_f64() * 1e3;
    println!("{name}: {count} changed, seed {seed}; slowest {slowest:.0} ms");
}

#[test]
fn changed_markdown_grows_as_if_it_had_come_at_once_and_holds_nothing_to_obey() {
    campaign("markdown", TEXT.as_bytes(), WORDS, |bytes, case| {
        let text = String::from_utf8_lossy(bytes);
        let width = 1 + case as usize % 60;
        let began = Instant::now();
        let whole = Page::default().of(&text, width, false).to_vec();
        let took = began.elapsed();
        // A text that nests thousands deep is long; it grows in fewer steps.
        let step = 1 + text.chars().count() / 60;
        let mut grown = Page::default();
        let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
        for end in ends.step_by(step) {
            grown.of(&text[..end], width, true);
        }
        let grown = grown.of(&text, width, false);
        let parts = grown
            .iter()
            .zip(&whole)
            .find(|(grown, whole)| grown != whole);
        assert!(grown == whole, "case {case}: {parts:?} of {text:?}");
        // As the view draws it.
        for row in whole.iter().map(Row::text) {
            let drawn = shown(&row, usize::MAX);
            assert!(!drawn.contains(char::is_control), "case {case}: {row:?}");
        }
        took
    });
}

/// Keys as a terminal's reader gives them after a lone Esc.
fn keys(bytes: &[u8]) -> Vec<Event> {
    let text = String::from_utf8_lossy(bytes);
    let key = |code, modifiers| Event::Key(KeyEvent::new(code, modifiers));
    let keys = text.chars().map(|c| match c {
        '\r' => key(KeyCode::Enter, KeyModifiers::NONE),
        '\n' => key(KeyCode::Char('j'), KeyModifiers::CONTROL),
        '\t' => key(KeyCode::Tab, KeyModifiers::NONE),
        '\u{7f}' => Event::Paste("pasted".to_owned()),
        '\u{1}' => Event::Resize(7, 3),
        c if c.is_uppercase() => key(KeyCode::Char(c), KeyModifiers::SHIFT),
        c => key(KeyCode::Char(c), KeyModifiers::NONE),
    });
    keys.collect()
}

#[test]
fn changed_keys_are_neither_lost_nor_kept_back() {
    let good = b"[A\rOQ[200~one\ntwo[5~xy[1;9x[15~\t";
    let words = [
        "[200~", "[", "O", ";", "~", "\r", "\u{1}", "\u{7f}", "[3~", "[123456",
    ];
    let mut put_together = 0;
    campaign("keys", good, &words, |bytes, case| {
        let began = Instant::now();
        let all = keys(bytes);
        let mut at = 0;
        while at < all.len() {
            let begin = at;
            at += 1;
            let Event::Key(first) = all[begin] else {
                continue;
            };
            let came = escape::whole(first, || {
                let next = all.get(at).cloned();
                at += usize::from(next.is_some());
                next
            });
            let taken = &all[begin..at];
            match came.as_slice() {
                [Event::Paste(_)] if taken.len() > 1 => assert_eq!(at, all.len(), "case {case}"),
                [Event::Key(_)] if came != taken => {
                    put_together += 1;
                    assert!(taken.len() <= 9, "case {case}: {taken:?} is one key");
                }
                _ => {
                    assert!(came == taken, "case {case}: {taken:?} became {came:?}");
                    assert!(taken.len() <= 9, "case {case}: {taken:?} was kept back");
                }
            }
        }
        began.elapsed()
    });
    assert!(put_together > 0, "no sequence was whole");
}

#[test]
fn a_changed_draft_is_read_or_left() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("talk.jsonl");
    let file = folder.path().join("talk.jsonl.draft");
    let good = "{\"draft\":\"Say \\\"hi\\\" in 中文\",\"queue\":[\"one\",\"two\"]}";
    let mut read = 0;
    campaign(
        "draft",
        good.as_bytes(),
        &["\"queue\":[", "\\u001b", "\"draft\""],
        |bytes, _| {
            std::fs::write(&file, bytes).unwrap();
            let began = Instant::now();
            read += u32::from(!Unsent::of(&history).is_empty());
            let took = began.elapsed();
            assert_eq!(
                std::fs::read(&file).unwrap(),
                bytes,
                "reading changes nothing"
            );
            took
        },
    );
    assert!(read > 0, "nothing was ever read");
}
