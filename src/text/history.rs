//! The reader of history files: JSON lines, one message a line. Saving is not done here, nor is anything mended.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::error::{Result, TextError};
use super::message::{Message, Role};
use crate::checkpoint::one_line;

/// Longest line of a history, in bytes and without its line end.
pub const LONGEST_LINE: u64 = 16 << 20;

/// Reads a history. An empty file is an empty history.
///
/// # Errors
/// The file cannot be opened or read; a line is blank, longer than 16 MiB, not exactly one message, or a message that
/// may not follow what stands before it (see [`misplaced`]). Nothing is returned of a file that has an error.
pub fn read(path: &Path) -> Result<Vec<Message>> {
    let unreadable = |cause| TextError::HistoryFile {
        path: path.to_owned(),
        cause,
    };
    let mut reader = BufReader::new(std::fs::File::open(path).map_err(unreadable)?);
    let mut messages = Vec::new();
    loop {
        let line = messages.len() + 1;
        let refuse = |reason| TextError::History {
            path: path.to_owned(),
            line,
            reason,
        };
        let mut bytes = Vec::new();
        // One byte more than a line may have: its line end, or the proof that it is too long.
        if reader
            .by_ref()
            .take(LONGEST_LINE + 1)
            .read_until(b'\n', &mut bytes)
            .map_err(unreadable)?
            == 0
        {
            return Ok(messages);
        }
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        } else if bytes.len() as u64 > LONGEST_LINE {
            return Err(refuse("the line exceeds 16 MiB".into()));
        }
        messages.push(parse(&bytes).map_err(refuse)?);
        if let Some(reason) = misplaced(&messages) {
            return Err(refuse(reason));
        }
    }
}

/// Why the last of `messages` may not stand where it stands, if so. Only the first may be a system message; then
/// users and assistants take turns, a user first; only assistants reason.
pub fn misplaced(messages: &[Message]) -> Option<String> {
    let (last, before) = messages.split_last()?;
    if last.role != Role::Assistant && last.reasoning_content.is_some() {
        return Some(format!(
            "reasoning_content in a message of the {}",
            last.role.as_str()
        ));
    }
    let expected = match before.last().map(|message| message.role) {
        None if last.role == Role::System => return None,
        None | Some(Role::System | Role::Assistant) => Role::User,
        Some(Role::User) => Role::Assistant,
    };
    match last.role {
        Role::System => Some("a system message that is not the first".into()),
        role if role != expected => Some(format!(
            "a message of the {} where one of the {} must follow",
            role.as_str(),
            expected.as_str()
        )),
        _ => None,
    }
}

/// The message of one line, given without its line end.
///
/// # Errors
/// What is wrong with it, with its column.
pub fn parse(line: &[u8]) -> std::result::Result<Message, String> {
    match line
        .iter()
        .find(|byte| !matches!(byte, b' ' | b'\t' | b'\r'))
    {
        None => return Err("the line is blank".into()),
        // serde would take an array for the fields in order.
        Some(first) if *first != b'{' => return Err("the line is not a JSON object".into()),
        Some(_) => {}
    }
    let message: Message = serde_json::from_slice(line).map_err(|error| {
        // What serde calls line 1 is the line that the caller names.
        let place = format!(" at line {} column {}", error.line(), error.column());
        let text = error.to_string();
        format!(
            "{} (column {})",
            one_line(text.strip_suffix(&place).unwrap_or(&text)),
            error.column()
        )
    })?;
    let strings = [Some(&message.content), message.reasoning_content.as_ref()];
    if strings
        .into_iter()
        .flatten()
        .any(|text| text.contains('\0'))
    {
        return Err("a NUL character, which the C engine cannot read".into());
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: &str = r#"{"role":"user","content":"x"}"#;
    const ASSISTANT: &str = r#"{"role":"assistant","content":"y"}"#;
    const SYSTEM: &str = r#"{"role":"system","content":"z"}"#;

    fn read_bytes(bytes: &[u8]) -> Result<Vec<Message>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        read(file.path())
    }

    /// The line and the message of the refusal.
    fn refusal(lines: &[&str]) -> (usize, String) {
        match read_bytes(lines.join("\n").as_bytes()) {
            Err(TextError::History { line, reason, .. }) => (line, reason),
            other => panic!("{lines:?} gave {other:?}"),
        }
    }

    #[test]
    fn what_is_well_formed_is_read() {
        assert!(read_bytes(b"").unwrap().is_empty());
        let text = format!("{SYSTEM}\r\n{USER}\r\n\t {ASSISTANT} \n{USER}");
        let messages = read_bytes(text.as_bytes()).unwrap();
        assert_eq!(messages.len(), 4);
        let escapes = r#"{"content": "\"\\\/\b\f\n\r\t\u00e9\uD83d\ude00", "role": "user"}"#;
        let messages = read_bytes(escapes.as_bytes()).unwrap();
        assert_eq!(messages, [Message::user("\"\\/\u{8}\u{c}\n\r\té😀")]);
        let reasoning = r#"{"role":"assistant","content":"","reasoning_content":""}"#;
        let messages = read_bytes(format!("{USER}\n{reasoning}\n").as_bytes()).unwrap();
        assert_eq!(messages[1], Message::assistant(Some(String::new()), ""));
    }

    #[test]
    fn what_is_no_message_is_refused_with_its_line() {
        for (bad, part) in [
            ("", "blank"),
            (" \r", "blank"),
            ("5", "not a JSON object"),
            (r#"["assistant","y"]"#, "not a JSON object"),
            ("{}", "missing field"),
            (r#"{"role":"assistant"}"#, "missing field `content`"),
            (
                r#"{"role":"assistant","content":null}"#,
                "expected a string",
            ),
            (r#"{"role":"assistant","content":5}"#, "expected a string"),
            (
                r#"{"role":"assistant","content":["y"]}"#,
                "expected a string",
            ),
            (
                r#"{"role":"assistant","content":"y","reasoning_content":null}"#,
                "expected a string",
            ),
            (
                r#"{"role":{"assistant":null},"content":"y"}"#,
                "expected a string",
            ),
            (r#"{"role":"tool","content":"y"}"#, "unknown role \"tool\""),
            (r#"{"role":"Assistant","content":"y"}"#, "unknown role"),
            (
                r#"{"role":"assistant","content":"y","name":"n"}"#,
                "unknown field `name`",
            ),
            (
                r#"{"role":"assistant","content":"y","content":"y"}"#,
                "duplicate field",
            ),
            (r#"{"role":"assistant","content":"y",}"#, "trailing comma"),
            (
                r#"{"role":"assistant","content":"y"} x"#,
                "trailing characters",
            ),
            (
                r#"{"role":"assistant","content":"y"}{}"#,
                "trailing characters",
            ),
            (r#"{"role":"assistant","content":"y"#, "EOF"),
            (r#"{"role":"assistant","content":"\x"}"#, "invalid escape"),
            (r#"{"role":"assistant","content":"\u12"}"#, "escape"),
            (r#"{"role":"assistant","content":"\ud83d"}"#, "hex escape"),
            (r#"{"role":"assistant","content":"\ude00"}"#, "surrogate"),
            (r#"{"role":"assistant","content":"\u0000"}"#, "NUL"),
            (
                "{\"role\":\"assistant\",\"content\":\"\u{1}\"}",
                "control character",
            ),
            (
                "{\"role\":\"assistant\",\u{b}\"content\":\"y\"}",
                "column 21",
            ),
        ] {
            let (line, reason) = refusal(&[USER, bad, USER]);
            assert_eq!(line, 2, "{bad}");
            assert!(reason.contains(part), "{bad}: {reason}");
        }
        assert_eq!(refusal(&[USER, "\n"]).0, 2);
        assert!(read_bytes(b"{\"role\":\"user\",\"content\":\"\xff\"}").is_err());
        assert!(read_bytes(b"\xef\xbb\xbf{\"role\":\"user\",\"content\":\"\"}").is_err());
        assert!(read_bytes(b"{\"role\":\"user\",\"content\":\"\0\"}").is_err());
    }

    #[test]
    fn the_order_of_roles_is_kept() {
        for (lines, bad) in [
            (&[ASSISTANT][..], 1),
            (&[SYSTEM, ASSISTANT], 2),
            (&[SYSTEM, SYSTEM], 2),
            (&[USER, USER], 2),
            (&[USER, SYSTEM], 2),
            (&[USER, ASSISTANT, ASSISTANT], 3),
            (
                &[r#"{"role":"user","content":"x","reasoning_content":""}"#],
                1,
            ),
        ] {
            assert_eq!(refusal(lines).0, bad, "{lines:?}");
        }
    }

    #[test]
    fn a_line_has_16_mib_at_most() {
        let line = |length: usize| {
            let frame = r#"{"role":"user","content":""}"#.len();
            format!(
                r#"{{"role":"user","content":"{}"}}"#,
                "x".repeat(length - frame)
            )
        };
        let longest = LONGEST_LINE as usize;
        assert_eq!(
            read_bytes(format!("{}\n", line(longest)).as_bytes())
                .unwrap()
                .len(),
            1
        );
        assert_eq!(read_bytes(line(longest).as_bytes()).unwrap().len(), 1);
        assert!(refusal(&[&line(longest + 1)]).1.contains("16 MiB"));
        assert!(refusal(&[&line(longest + 1), ""]).1.contains("16 MiB"));
    }

    #[test]
    fn the_error_names_the_file_and_the_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("talk.jsonl");
        assert!(
            read(&path)
                .expect_err("missing")
                .to_string()
                .contains("talk.jsonl")
        );
        std::fs::write(
            &path,
            format!("{USER}\n{{\"role\":\"assistant\",\"content\":7}}\n"),
        )
        .unwrap();
        let message = read(&path).expect_err("no string").to_string();
        assert!(
            message
                .contains("talk.jsonl:2: invalid type: integer `7`, expected a string (column 31)"),
            "{message}"
        );
    }
}
