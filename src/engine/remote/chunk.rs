//! A chunk of a streamed answer: its JSON, in the forms that servers have for it. Not what is made of it.

use serde::Deserialize;
use serde_json::Value;

use super::figures::Counted;

/// What a chunk says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    /// Reasoning, where the server separates it.
    Reasoning(String),
    /// The answer; with the marks of channels, where the server leaves them there.
    Content(String),
    /// The model wants a tool, which nothing here has.
    Tool,
    /// The answer is complete, for this reason.
    Finish(Finish),
    /// What the server counted.
    Usage(Counted),
    /// The server failed, and says this.
    Failed(String),
}

/// Why an answer is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finish {
    /// The server's word.
    pub reason: String,
    /// The id that it stopped at, if it says one.
    pub stop_id: Option<u32>,
}

#[derive(Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    usage: Option<Usage>,
    error: Option<Value>,
    // An error at the top, as older servers send it.
    object: Option<Value>,
    message: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Option<Delta>,
    /// Where a server does not stream.
    message: Option<Delta>,
    finish_reason: Option<String>,
    /// vLLM's: the id or text that it stopped at.
    stop_reason: Option<Value>,
    /// SGLang's.
    matched_stop: Option<Value>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
    /// SGLang, and vLLM up to a point.
    reasoning_content: Option<String>,
    /// vLLM since; some send both, with the same text.
    reasoning: Option<String>,
    tool_calls: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    /// SGLang's, beside the details.
    reasoning_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

/// What the JSON of a chunk says, in its order.
///
/// # Errors
/// It is no such chunk, and where. Nothing of its text is in the error.
pub(super) fn read(json: &str) -> Result<Vec<Piece>, String> {
    let chunk: Chunk = serde_json::from_str(json).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        let what = match error.classify() {
            serde_json::error::Category::Eof => "it ends too early",
            serde_json::error::Category::Data => "a field has another type",
            _ => "no valid JSON",
        };
        format!("a chunk of the answer: {what} at {place}")
    })?;
    let mut pieces = Vec::new();
    if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
        pieces.push(Piece::Failed(message_of(&error)));
        return Ok(pieces);
    }
    if chunk.object.as_ref().and_then(Value::as_str) == Some("error") {
        let message = chunk.message.unwrap_or_default();
        pieces.push(Piece::Failed(message_of(&message)));
        return Ok(pieces);
    }
    // One answer is asked for.
    if let Some(choice) = chunk.choices.into_iter().flatten().next() {
        take(choice, &mut pieces);
    }
    if let Some(usage) = chunk.usage {
        pieces.extend(counted(&usage).map(Piece::Usage));
    }
    Ok(pieces)
}

fn take(choice: Choice, pieces: &mut Vec<Piece>) {
    let full = |text: &String| !text.is_empty();
    if let Some(delta) = choice.delta.or(choice.message) {
        let reasoning = delta.reasoning_content.filter(full);
        let reasoning = reasoning.or(delta.reasoning.filter(full));
        pieces.extend(reasoning.map(Piece::Reasoning));
        pieces.extend(delta.content.filter(full).map(Piece::Content));
        if delta.tool_calls.is_some_and(|calls| !calls.is_empty()) {
            pieces.push(Piece::Tool);
        }
    }
    if let Some(reason) = choice.finish_reason {
        let stop = choice.stop_reason.or(choice.matched_stop);
        let stop_id = stop.and_then(|stop| stop.as_u64()?.try_into().ok());
        pieces.push(Piece::Finish(Finish { reason, stop_id }));
    }
}

fn counted(usage: &Usage) -> Option<Counted> {
    let cached = usage.prompt_tokens_details.as_ref();
    let reasoning = usage.completion_tokens_details.as_ref();
    Some(Counted {
        prompt: usage.prompt_tokens?,
        cached: cached.and_then(|details| details.cached_tokens),
        made: usage.completion_tokens.unwrap_or(0),
        reasoning: reasoning
            .and_then(|details| details.reasoning_tokens)
            .or(usage.reasoning_tokens),
    })
}

/// What an error says: a text, or an object with one. Of anything else nothing.
pub(super) fn message_of(error: &Value) -> String {
    let inner = error.get("error").unwrap_or(error);
    let text = inner
        .as_str()
        .or_else(|| inner.get("message").and_then(Value::as_str))
        .or_else(|| inner.get("detail").and_then(Value::as_str));
    text.unwrap_or_default().to_owned()
}

/// The field that an error is about, if it names one.
pub(super) fn field_of(error: &Value) -> Option<&str> {
    let inner = error.get("error").unwrap_or(error);
    inner.get("param").and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_names_of_reasoning_are_read_once() {
        for delta in [
            r#"{"reasoning_content":"a"}"#,
            r#"{"reasoning":"a","content":null}"#,
            r#"{"reasoning_content":"a","reasoning":"a"}"#,
            r#"{"reasoning_content":"","reasoning":"a"}"#,
        ] {
            let chunk = format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#);
            assert_eq!(read(&chunk), Ok(vec![Piece::Reasoning("a".into())]));
        }
        let first = r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#;
        assert_eq!(read(first), Ok(Vec::new()));
    }

    #[test]
    fn an_answer_ends_with_a_reason_and_counts() {
        let last = r#"{"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"stop","stop_reason":163586}],"usage":null}"#;
        let finish = |stop_id| {
            Piece::Finish(Finish {
                reason: "stop".into(),
                stop_id,
            })
        };
        assert_eq!(
            read(last),
            Ok(vec![Piece::Content("b".into()), finish(Some(163_586))])
        );
        let last = r#"{"choices":[{"delta":{},"finish_reason":"stop","matched_stop":"x"}]}"#;
        assert_eq!(read(last), Ok(vec![finish(None)]));
        let usage = r#"{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":3},"reasoning_tokens":2}}"#;
        let counted = Counted {
            prompt: 5,
            cached: Some(3),
            made: 7,
            reasoning: Some(2),
        };
        assert_eq!(read(usage), Ok(vec![Piece::Usage(counted)]));
        let usage = r#"{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7,"prompt_tokens_details":null}}"#;
        let counted = Counted {
            cached: None,
            reasoning: None,
            ..counted
        };
        assert_eq!(read(usage), Ok(vec![Piece::Usage(counted)]));
    }

    #[test]
    fn errors_are_read_in_the_forms_that_there_are() {
        for chunk in [
            r#"{"error":{"message":"why","type":"t","code":500}}"#,
            r#"{"error":"why"}"#,
            r#"{"object":"error","message":"why","code":500}"#,
            r#"{"error":{"error":{"message":"why"}}}"#,
        ] {
            assert_eq!(
                read(chunk),
                Ok(vec![Piece::Failed("why".into())]),
                "{chunk}"
            );
        }
        let silent = r#"{"error":{"code":500}}"#;
        assert_eq!(read(silent), Ok(vec![Piece::Failed(String::new())]));
    }

    #[test]
    fn what_is_no_chunk_is_refused_without_its_text() {
        for wrong in ["", "{\"secret", "secret", "[]", r#"{"choices":"secret"}"#] {
            let why = read(wrong).unwrap_err();
            assert!(why.contains("column") && !why.contains("secret"), "{why}");
        }
    }
}
