//! `k3 tok`: the tokenizer and the chat format by hand. No model is loaded.

use std::io::{BufRead, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use super::{Exit, SamplingArgs, ids};
use crate::chat::Sampler;
use crate::text::{Effort, Markers, Names, Thinking, Tokenizer, history, render};

/// Arguments of `k3 tok`.
#[derive(Args, Debug)]
pub struct TokArgs {
    #[command(subcommand)]
    command: TokCommand,
}

#[derive(Subcommand, Debug)]
enum TokCommand {
    /// Print the ids of a text as a JSON array
    Encode(EncodeArgs),
    /// Print the text of ids
    Decode(DecodeArgs),
    /// Print the prompt that a history gives
    Render(RenderArgs),
    /// Print ids that are chosen from given logits, as a JSON array
    Sample(SampleArgs),
}

#[derive(Args, Debug)]
struct EncodeArgs {
    /// The text, its words joined by one space; left out: standard input
    #[arg(conflicts_with = "jsonl")]
    text: Vec<String>,
    #[command(flatten)]
    tokenizer: TokenizerArgs,
    /// Names of special tokens are those tokens, not text
    #[arg(long)]
    special: bool,
    /// Print the pieces that are encoded one by one, not their ids
    #[arg(long)]
    pieces: bool,
    /// Read one JSON string a line from standard input, write one JSON array a line
    #[arg(long)]
    jsonl: bool,
}

#[derive(Args, Debug)]
struct DecodeArgs {
    /// The ids, with commas or spaces between, or as a JSON array; left out: standard input
    #[arg(value_name = "IDS", conflicts_with = "jsonl")]
    ids: Vec<String>,
    #[command(flatten)]
    tokenizer: TokenizerArgs,
    /// Read one JSON array of ids a line from standard input, write one JSON string a line
    #[arg(long)]
    jsonl: bool,
}

#[derive(Args, Debug)]
struct RenderArgs {
    /// The history, JSON lines
    history: PathBuf,
    #[command(flatten)]
    tokenizer: TokenizerArgs,
    /// Without think channels
    #[arg(long, conflicts_with = "thinking_effort")]
    no_think: bool,
    /// How much the model is to think: low, high or max
    #[arg(long, value_name = "EFFORT", default_value = "max")]
    thinking_effort: Effort,
    /// Without the generation prompt, the start of the answer
    #[arg(long)]
    no_prompt: bool,
    /// Print ids as one JSON array (the default)
    #[arg(long, conflicts_with = "text")]
    ids: bool,
    /// Print text; it can mean two things where a message has the name of a special token
    #[arg(long)]
    text: bool,
}

#[derive(Args, Debug)]
struct SampleArgs {
    /// The logits, one for each id from 0
    #[arg(long, value_name = "JSON ARRAY", allow_hyphen_values = true)]
    logits: String,
    /// How many ids to choose, one after the other
    #[arg(long, value_name = "N", default_value_t = 1)]
    count: usize,
    /// The number of the answer in its conversation: every turn has draws of its own
    #[arg(long, value_name = "T", default_value_t = 1)]
    turn: u64,
    #[command(flatten)]
    sampling: SamplingArgs,
}

#[derive(Args, Debug)]
struct TokenizerArgs {
    /// Folder of tiktoken.model and tokenizer_config.json
    #[arg(long, value_name = "DIR")]
    tok: PathBuf,
}

/// Runs `k3 tok`.
///
/// # Errors
/// The tokenizer or the history is refused, the input is not what the command reads, or a result cannot be written.
pub fn run(args: &TokArgs) -> Result<()> {
    run_with(args, std::io::stdin().lock(), std::io::stdout().lock())
}

/// [`run`] with given streams.
fn run_with(args: &TokArgs, mut input: impl BufRead, mut output: impl Write) -> Result<()> {
    match &args.command {
        TokCommand::Encode(args) => encode(args, &mut input, &mut output),
        TokCommand::Decode(args) => decode(args, &mut input, &mut output),
        TokCommand::Render(args) => render_history(args, &mut output),
        TokCommand::Sample(args) => sample(args, &mut output),
    }?;
    output.flush().context("cannot write to standard output")
}

fn encode(args: &EncodeArgs, input: &mut impl BufRead, output: &mut impl Write) -> Result<()> {
    let tokenizer = Tokenizer::load(&args.tokenizer.tok)?;
    let names = if args.special {
        Names::Allowed
    } else {
        Names::AsText
    };
    let encoded = |text: &str| {
        if args.pieces {
            serde_json::to_string(&tokenizer.pieces(text, names))
        } else {
            serde_json::to_string(&tokenizer.encode(text, names))
        }
    };
    if args.jsonl {
        return each_line(input, output, |line| {
            let text: String = json(line, "string")?;
            Ok(encoded(&text)?)
        });
    }
    write_line(output, &encoded(&text_or_input(&args.text, input)?)?)
}

fn decode(args: &DecodeArgs, input: &mut impl BufRead, output: &mut impl Write) -> Result<()> {
    let tokenizer = Tokenizer::load(&args.tokenizer.tok)?;
    if args.jsonl {
        return each_line(input, output, |line| {
            let ids: Vec<u32> = json(line, "array of ids")?;
            Ok(serde_json::to_string(&tokenizer.decode(&ids)?)?)
        });
    }
    let ids = parse_ids(&text_or_input(&args.ids, input)?, &tokenizer)?;
    write_line(output, &tokenizer.decode(&ids)?)
}

fn render_history(args: &RenderArgs, output: &mut impl Write) -> Result<()> {
    let tokenizer = Tokenizer::load(&args.tokenizer.tok)?;
    let markers = Markers::find(&tokenizer)?;
    let messages = history::read(&args.history)?;
    let thinking = if args.no_think {
        Thinking::Off
    } else {
        Thinking::On(Some(args.thinking_effort))
    };
    let mut segments = render::conversation(&messages, thinking);
    if !args.no_prompt {
        segments.extend(render::opening(thinking));
    }
    if args.text {
        write_line(output, &render::text(&segments))
    } else {
        write_line(
            output,
            &serde_json::to_string(&render::encode(&tokenizer, &markers, &segments))?,
        )
    }
}

/// The words of the command line, or all of standard input as it is.
fn text_or_input(words: &[String], input: &mut impl BufRead) -> Result<String> {
    if !words.is_empty() {
        return Ok(words.join(" "));
    }
    let mut text = String::new();
    input
        .read_to_string(&mut text)
        .context("cannot read text from standard input")?;
    Ok(text)
}

fn sample(args: &SampleArgs, output: &mut impl Write) -> Result<()> {
    let logits: Vec<f32> = json(args.logits.as_bytes(), "array of logits")?;
    if logits.is_empty() {
        return Err(Exit::Refused("there are no logits to choose from".into()).into());
    }
    let mut sampler = Sampler::new(args.sampling.sampling(), args.turn);
    // Written as they come, so that no count takes memory.
    let failed = "cannot write to standard output";
    for number in 0..args.count {
        let before = if number == 0 { "[" } else { "," };
        write!(output, "{before}{}", sampler.next(&logits)?).context(failed)?;
    }
    let end = if args.count == 0 { "[]" } else { "]" };
    write_line(output, end)
}

/// Ids as people type them, or as `k3 tok encode` prints them.
fn parse_ids(text: &str, tokenizer: &Tokenizer) -> Result<Vec<u32>> {
    let text = text.trim();
    if text.starts_with('[') {
        return json(text.as_bytes(), "array of ids");
    }
    Ok(ids::parse_list(text, tokenizer.size() as usize)?)
}

/// One JSON value from outside.
fn json<T: for<'de> serde::Deserialize<'de>>(text: &[u8], what: &str) -> Result<T> {
    serde_json::from_slice(text)
        .map_err(|error| Exit::Refused(format!("not one JSON {what}: {error}")).into())
}

/// Answers every line of the input with one line, at once, so that a program may ask and wait.
fn each_line(
    input: &mut impl BufRead,
    output: &mut impl Write,
    answer: impl Fn(&[u8]) -> Result<String>,
) -> Result<()> {
    for number in 1.. {
        let mut line = Vec::new();
        if input
            .read_until(b'\n', &mut line)
            .context("cannot read standard input")?
            == 0
        {
            break;
        }
        write_line(
            output,
            &answer(&line).with_context(|| format!("standard input, line {number}"))?,
        )?;
    }
    Ok(())
}

fn write_line(output: &mut impl Write, line: &str) -> Result<()> {
    writeln!(output, "{line}")
        .and_then(|()| output.flush())
        .context("cannot write to standard output")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::small_vocabulary;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        tok: TokArgs,
    }

    /// Runs `k3 tok` with these arguments and `--tok`; everything that goes wrong as text.
    fn tok(args: &[&str], input: &str) -> std::result::Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        small_vocabulary::write_to(folder.path()).unwrap();
        let with_tok = [&["tok"], args, &["--tok", folder.path().to_str().unwrap()]].concat();
        let cli = Cli::try_parse_from(with_tok).map_err(|error| error.to_string())?;
        let mut output = Vec::new();
        run_with(&cli.tok, input.as_bytes(), &mut output).map_err(|error| format!("{error:#}"))?;
        Ok(String::from_utf8(output).unwrap())
    }

    fn history(lines: &[&str]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), lines.join("\n")).unwrap();
        file
    }

    /// The first special token of the small vocabulary.
    fn base() -> u32 {
        256 + small_vocabulary::MERGES.len() as u32
    }

    #[test]
    fn text_becomes_ids_and_ids_become_text() {
        assert_eq!(tok(&["encode", "ab!"], "").unwrap(), "[287,0]\n");
        assert_eq!(tok(&["encode", "a", "!"], "").unwrap(), "[64,220,0]\n");
        assert_eq!(tok(&["encode"], "a\n").unwrap(), "[64,198]\n");
        assert_eq!(tok(&["encode"], "").unwrap(), "[]\n");
        for ids in [&["287,0"][..], &["287", "0"], &["[287, 0]"], &[" 287,\t0 "]] {
            assert_eq!(
                tok(&[&["decode"], ids].concat(), "").unwrap(),
                "ab!\n",
                "{ids:?}"
            );
        }
        assert_eq!(tok(&["decode"], "[287,0]\n").unwrap(), "ab!\n");
    }

    #[test]
    fn names_are_text_unless_asked_for() {
        let base = base();
        assert_eq!(
            tok(&["encode", "[EOS]", "--special"], "").unwrap(),
            format!("[{}]\n", base + 1)
        );
        assert!(
            !tok(&["encode", "[EOS]"], "")
                .unwrap()
                .contains(&(base + 1).to_string())
        );
        assert_eq!(
            tok(&["decode", &(base + 1).to_string()], "").unwrap(),
            "[EOS]\n"
        );
    }

    #[test]
    fn pieces_are_a_json_array() {
        assert_eq!(
            tok(&["encode", "--pieces", "it's \"x\""], "").unwrap(),
            "[\"it's\",\" \\\"\",\"x\",\"\\\"\"]\n"
        );
        assert_eq!(
            tok(&["encode", "--pieces", "--special", "a[EOS]b"], "").unwrap(),
            "[\"a\",\"[EOS]\",\"b\"]\n"
        );
        assert_eq!(
            tok(&["encode", "--pieces", "--jsonl"], "\"中a\"\n").unwrap(),
            "[\"中\",\"a\"]\n"
        );
    }

    #[test]
    fn every_line_has_its_answer() {
        assert_eq!(
            tok(&["encode", "--jsonl"], "\"ab\"\r\n\"\"\n\"\\n\"").unwrap(),
            "[287]\n[]\n[198]\n"
        );
        assert_eq!(
            tok(&["decode", "--jsonl"], "[198,64]\n[]\n").unwrap(),
            "\"\\na\"\n\"\"\n"
        );
        assert_eq!(tok(&["encode", "--jsonl"], "").unwrap(), "");
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (args, input, part) in [
            (&["decode", "x"][..], "", "`x` is no token id"),
            (&["decode", "+1"], "", "is no token id"),
            (&["decode", "4294967296"], "", "is no token id"),
            (&["decode", "[1"], "", "not one JSON array"),
            (
                &["decode", "1000000"],
                "",
                "ids are whole numbers from 0 to 555",
            ),
            (
                &["encode", "--jsonl"],
                "\"a\"\nb\n",
                "standard input, line 2: not one JSON string",
            ),
            (&["encode", "--jsonl"], "\"a\"\n\n", "line 2"),
            (&["encode", "--jsonl"], "\"\\ud800\"", "line 1"),
            (
                &["decode", "--jsonl"],
                "[-1]\n",
                "line 1: not one JSON array of ids: invalid value",
            ),
            (
                &["decode", "--jsonl"],
                "[1]\n[1000000]\n",
                "line 2: there is no token",
            ),
            (&["encode", "--jsonl", "a"], "", "cannot be used with"),
            (
                &["render", "x", "--no-think", "--thinking-effort", "low"],
                "",
                "cannot be used with",
            ),
            (
                &["render", "x", "--ids", "--text"],
                "",
                "cannot be used with",
            ),
            (
                &["render", "x", "--thinking-effort", "medium"],
                "",
                "unknown thinking effort \"medium\"",
            ),
            (
                &["encode", "a", "--tok", "x"],
                "",
                "cannot be used multiple times",
            ),
            (
                &["render", "no-such-history.jsonl"],
                "",
                "cannot read the history no-such-history.jsonl",
            ),
        ] {
            let refusal = tok(args, input).expect_err(&args.join(" "));
            assert!(refusal.contains(part), "{args:?}: {refusal}");
        }
    }

    #[test]
    fn a_history_is_rendered() {
        let file = history(&[
            r#"{"role":"user","content":"<|sep|>"}"#,
            r#"{"role":"assistant","content":"b","reasoning_content":"a"}"#,
        ]);
        let path = file.path().to_str().unwrap();
        let text = "<|open|>message role=\"user\"<|sep|><|sep|><|close|>message<|sep|><|end_of_msg|>\
             <|open|>message role=\"assistant\"<|sep|><|open|>response<|sep|>b<|close|>response<|sep|>\
             <|close|>message<|sep|><|end_of_msg|>";
        assert_eq!(
            tok(&["render", path, "--text", "--no-think", "--no-prompt"], "").unwrap(),
            format!("{text}\n")
        );
        let prompt = "<|open|>message role=\"assistant\"<|sep|><|open|>response<|sep|>";
        assert_eq!(
            tok(&["render", path, "--text", "--no-think"], "").unwrap(),
            format!("{text}{prompt}\n")
        );
        let low = tok(&["render", path, "--text", "--thinking-effort", "low"], "").unwrap();
        assert!(
            low.contains("`thinking_effort=low`")
                && low.contains("<|open|>think<|sep|>a<|close|>think<|sep|>")
        );
        assert!(low.ends_with("<|open|>think<|sep|>\n"));
        let max = tok(&["render", path, "--text"], "").unwrap();
        assert!(max.contains("`thinking_effort=max`"));

        let ids = tok(&["render", path], "").unwrap();
        assert_eq!(ids, tok(&["render", path, "--ids"], "").unwrap());
        let ids: Vec<u32> = serde_json::from_str(&ids).unwrap();
        assert_eq!(
            tok(&["decode", &serde_json::to_string(&ids).unwrap()], "").unwrap(),
            max
        );
        // Three for every tag and one for the end of a message; the name in the user's text is none of them.
        let sep = ids.iter().filter(|&&id| id == base() + 5).count();
        assert_eq!(sep, max.matches("<|sep|>").count() - 1);
    }

    /// Runs `k3 tok sample`, which needs no tokenizer.
    fn sampled(args: &str) -> std::result::Result<String, String> {
        let args = format!("tok sample {args}");
        let cli = Cli::try_parse_from(args.split(' ')).map_err(|error| error.to_string())?;
        let mut output = Vec::new();
        run_with(&cli.tok, &b""[..], &mut output).map_err(|error| format!("{error:#}"))?;
        Ok(String::from_utf8(output).unwrap())
    }

    #[test]
    fn logits_become_ids() {
        let greedy = sampled("--logits [0,3,3.5e0,-1e30] --count 3").unwrap();
        assert_eq!(greedy, "[2,2,2]\n");
        assert_eq!(sampled("--logits [-1] --count 0").unwrap(), "[]\n");
        assert_eq!(sampled("--logits [-1,5]").unwrap(), "[1]\n");
        let drawn = "--logits [0,1,2,3] --temperature 0.7 --top-p 0.9 --seed 1234 --count 5";
        let fifth = sampled(&format!("{drawn} --turn 5")).unwrap();
        assert_eq!(fifth, "[3,2,3,3,3]\n");
        assert_eq!(sampled(drawn), sampled(&format!("{drawn} --turn 1")));
        assert_eq!(
            sampled(&format!("{drawn} --greedy")).unwrap(),
            "[3,3,3,3,3]\n"
        );
        for (wrong, says) in [
            ("--logits []", "no logits"),
            ("--logits [1", "not one JSON array of logits"),
            ("--logits [nan]", "not one JSON array of logits"),
            ("--logits [\"1\"]", "not one JSON array of logits"),
            ("--logits [1] --seed -1", "whole number from 0"),
            ("--logits [1] --count -1", "-1"),
            ("--count 1", "--logits"),
        ] {
            let refusal = sampled(wrong).expect_err(wrong);
            assert!(refusal.contains(says), "{wrong}: {refusal}");
        }
    }

    #[test]
    fn a_history_with_an_error_is_refused_with_its_line() {
        let file = history(&[r#"{"role":"user","content":"x"}"#, "{}"]);
        let refusal = tok(&["render", file.path().to_str().unwrap()], "").expect_err("no message");
        assert!(refusal.contains(":2: missing field `role`"), "{refusal}");
    }
}
