//! What a server says about itself under `/metrics`: the text format of Prometheus, and the names that vLLM, SGLang and llama.cpp
//! have in it. Not when it is asked.

use std::time::Instant;

use super::super::window::Window;
use super::figures::ServerFigures;

/// Where a server has its figures.
struct Names {
    engine: &'static str,
    running: &'static str,
    waiting: &'static str,
    /// A share, 0 to 1; the newest name first.
    cache: &'static [&'static str],
    /// Tokens a second; where there is none, a count of tokens.
    pace: Option<&'static str>,
    made: &'static str,
}

const KNOWN: [Names; 3] = [
    Names {
        engine: "vLLM",
        running: "vllm:num_requests_running",
        waiting: "vllm:num_requests_waiting",
        cache: &["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"],
        pace: None,
        made: "vllm:generation_tokens_total",
    },
    Names {
        engine: "SGLang",
        running: "sglang:num_running_reqs",
        waiting: "sglang:num_queue_reqs",
        cache: &["sglang:token_usage"],
        pace: Some("sglang:gen_throughput"),
        made: "sglang:generation_tokens_total",
    },
    Names {
        engine: "llama.cpp",
        running: "llamacpp:requests_processing",
        waiting: "llamacpp:requests_deferred",
        cache: &[],
        pace: None,
        made: "llamacpp:tokens_predicted_total",
    },
];

/// Several engines behind one address: counts add up; of shares the fullest counts, since it is the one that holds up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Reading {
    sum: f64,
    most: f64,
}

/// What all samples of this name say together; none where there is no such sample.
fn reading(text: &str, name: &str) -> Option<Reading> {
    let mut found: Option<Reading> = None;
    for value in text.lines().filter_map(|line| sample(line, name)) {
        let reading = found.get_or_insert_default();
        reading.sum += value;
        reading.most = reading.most.max(value);
    }
    found
}

/// The value of a line, if it is a sample of this name: `name{label="…"} value [time]`.
fn sample(line: &str, name: &str) -> Option<f64> {
    let rest = line.trim_start().strip_prefix(name)?;
    let values = match rest.strip_prefix('{') {
        Some(labels) => behind_labels(labels)?,
        None => rest.strip_prefix([' ', '\t'])?,
    };
    let value: f64 = values.split_whitespace().next()?.parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value)
}

/// What stands behind labels. A label's value may have a brace, and a quote behind a backslash.
fn behind_labels(labels: &str) -> Option<&str> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in labels.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '}' if !quoted => return Some(&labels[at + 1..]),
            _ => {}
        }
    }
    None
}

/// One who looks again and again, and so knows a rate where a server only counts.
#[derive(Debug)]
pub(super) struct Reader {
    made: Window,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            made: Window::new(std::time::Duration::from_secs(10)),
        }
    }
}

impl Reader {
    /// The figures in a text; none where nothing in it is known here.
    pub fn read(&mut self, text: &str, now: Instant) -> Option<ServerFigures> {
        let count = |name| reading(text, name).map(|reading| reading.sum as u64);
        let names = KNOWN
            .iter()
            .find(|names| count(names.running).is_some() || count(names.waiting).is_some())?;
        let cache = names.cache.iter().find_map(|name| reading(text, name));
        let told = names.pace.and_then(|name| reading(text, name));
        let counted = count(names.made).and_then(|total| self.made.rate(now, total));
        Some(ServerFigures {
            engine: names.engine,
            running: count(names.running),
            waiting: count(names.waiting),
            cache: cache.map(|reading| reading.most.min(1.0)),
            pace: told.map(|reading| reading.sum).or(counted),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const VLLM: &str = r#"# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a } \" b"} 2.0
vllm:num_requests_running{engine="1",model_name="k3"} 1.0
vllm:num_requests_waiting{engine="0"} 4
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 0.75 1700000000000
vllm:generation_tokens_total{engine="0"} 1000.0
"#;

    #[test]
    fn vllm_is_read_and_its_rate_is_counted() {
        let (mut reader, start) = (Reader::default(), Instant::now());
        let figures = ServerFigures {
            engine: "vLLM",
            running: Some(3),
            waiting: Some(4),
            cache: Some(0.75),
            pace: None,
        };
        assert_eq!(reader.read(VLLM, start), Some(figures));
        let later = VLLM.replace(" 1000.0", " 1.5e3");
        let figures = ServerFigures {
            pace: Some(50.0),
            ..figures
        };
        let at = start + Duration::from_secs(10);
        assert_eq!(reader.read(&later, at), Some(figures));
        let old = VLLM.replace("kv_cache", "gpu_cache");
        assert_eq!(
            reader.read(&old, at).and_then(|figures| figures.cache),
            Some(0.75)
        );
    }

    #[test]
    fn sglang_is_read() {
        let text = "sglang:num_running_reqs{model_name=\"k3\"} 7.0\nsglang:num_queue_reqs{model_name=\"k3\"} 0.0\nsglang:token_usage{model_name=\"k3\"} 0.5\nsglang:gen_throughput{model_name=\"k3\"} 123.5\n";
        let figures = ServerFigures {
            engine: "SGLang",
            running: Some(7),
            waiting: Some(0),
            cache: Some(0.5),
            pace: Some(123.5),
        };
        assert_eq!(Reader::default().read(text, Instant::now()), Some(figures));
    }

    #[test]
    fn llama_cpp_is_read() {
        let text = "llamacpp:tokens_predicted_total 109\nllamacpp:requests_processing 1\nllamacpp:requests_deferred 2\n";
        let figures = ServerFigures {
            engine: "llama.cpp",
            running: Some(1),
            waiting: Some(2),
            cache: None,
            pace: None,
        };
        assert_eq!(Reader::default().read(text, Instant::now()), Some(figures));
    }

    #[test]
    fn what_is_not_known_is_none_and_no_zero() {
        for text in [
            "",
            "other:metric 5\n",
            "vllm:num_requests_running_total 5\n",
            "vllm:num_requests_running{x=\"\n",
            "vllm:num_requests_running NaN\n",
            "# vllm:num_requests_running 5\n",
        ] {
            assert_eq!(Reader::default().read(text, Instant::now()), None, "{text}");
        }
        let figures = Reader::default().read("vllm:num_requests_waiting 5", Instant::now());
        assert_eq!(figures.unwrap().running, None);
    }
}
