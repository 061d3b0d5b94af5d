//! The models that a server has, and which of them is meant. Not how the list is fetched.

use serde::Deserialize;

/// A model as a server names it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Served {
    /// Its name.
    pub id: String,
    /// Positions that it may have, where the server says that.
    #[serde(default)]
    pub max_model_len: Option<usize>,
    /// The same, of llama.cpp.
    #[serde(default)]
    meta: Option<Meta>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Meta {
    n_ctx: Option<usize>,
}

impl Served {
    /// A model of which the name is all that is known.
    pub fn named(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            max_model_len: None,
            meta: None,
        }
    }

    /// Positions that it may have; 0 where the server does not say.
    pub fn context(&self) -> usize {
        let meta = self.meta.as_ref().and_then(|meta| meta.n_ctx);
        self.max_model_len.or(meta).unwrap_or(0)
    }
}

#[derive(Deserialize)]
struct List {
    data: Vec<Served>,
}

/// Names that an error lists.
const LISTED: usize = 12;

/// The list in a server's JSON.
///
/// # Errors
/// It is none.
pub(super) fn list(json: &str) -> Result<Vec<Served>, String> {
    let list: List = serde_json::from_str(json).map_err(|_| {
        "its list of models cannot be understood; is the address that of an OpenAI-compatible API?"
            .to_owned()
    })?;
    Ok(list.data)
}

/// The model that is meant: the one of this name, or the only one.
///
/// # Errors
/// There is none, or there are several; with their names.
pub(super) fn pick(models: Vec<Served>, name: Option<&str>) -> Result<Served, String> {
    let names: Vec<&str> = models.iter().map(|model| model.id.as_str()).collect();
    let more = match names.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown = names[..names.len().min(LISTED)].join(", ");
    let found = match name {
        Some(name) => models.iter().find(|model| model.id == name),
        None if models.len() == 1 => models.first(),
        None => None,
    };
    match (found, name) {
        (Some(model), _) => Ok(model.clone()),
        (None, _) if models.is_empty() => Err("the server has no model".to_owned()),
        (None, Some(name)) => Err(format!(
            "the server has no model {name}; it has {shown}{more}"
        )),
        (None, None) => Err(format!(
            "the server has several models; name one with --model, or model in the settings: {shown}{more}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_model_or_the_one_that_is_named_is_meant() {
        let json = r#"{"object":"list","data":[{"id":"a","object":"model","max_model_len":4096},{"id":"b","meta":{"n_ctx":2048,"n_params":5}},{"id":"c","meta":{}}]}"#;
        let mut both = list(json).unwrap();
        let contexts: Vec<usize> = both.iter().map(Served::context).collect();
        assert_eq!(contexts, [4096, 2048, 0]);
        both.pop();
        let a = both[0].clone();
        assert_eq!(pick(both[..1].to_vec(), None), Ok(a.clone()));
        assert_eq!(pick(both.clone(), Some("a")), Ok(a));
        let why = pick(both.clone(), None).unwrap_err();
        assert!(why.contains("--model") && why.ends_with(": a, b"), "{why}");
        let why = pick(both.clone(), Some("c")).unwrap_err();
        assert_eq!(why, "the server has no model c; it has a, b");
        assert!(pick(Vec::new(), None).unwrap_err().contains("no model"));
        let many = vec![both[1].clone(); 20];
        assert!(pick(many, None).unwrap_err().ends_with("b and 8 more"));
    }

    #[test]
    fn what_is_no_list_is_said_so() {
        for json in ["", "{}", "[]", r#"{"data":[{"id":5}]}"#, "<html>"] {
            assert!(list(json).unwrap_err().contains("OpenAI-compatible"));
        }
    }
}
