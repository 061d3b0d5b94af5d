//! A JSON tree that keeps integers apart from fractions and refuses a key that is given twice. It knows no model.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};

/// The members of a JSON object.
pub(super) type Object = BTreeMap<String, Node>;

/// A JSON value.
#[derive(Debug, PartialEq)]
pub(super) enum Node {
    Null,
    Bool(bool),
    /// A number written without fraction or exponent that fits in an i128.
    Integer(i128),
    /// Any other number.
    Real(f64),
    Text(String),
    List(Vec<Node>),
    Object(Object),
}

impl Node {
    /// The number, whatever way it is written.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Node::Integer(n) => Some(*n as f64),
            Node::Real(x) => Some(*x),
            _ => None,
        }
    }

    /// Equality of meaning: `5` and `5.0` are the same number.
    pub(super) fn means_the_same(&self, other: &Node) -> bool {
        match (self, other) {
            (Node::Integer(_), Node::Real(_)) | (Node::Real(_), Node::Integer(_)) => {
                self.number() == other.number()
            }
            _ => self == other,
        }
    }
}

/// The value as an error message shows it: short, whatever the value is.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Null => write!(f, "null"),
            Node::Bool(b) => write!(f, "{b}"),
            Node::Integer(n) => write!(f, "{n}"),
            // Debug keeps the fraction of a whole number, which is what makes it differ from an integer.
            Node::Real(x) => write!(f, "{x:?}"),
            Node::Text(text) if text.len() <= 40 => write!(f, "{text:?}"),
            Node::Text(_) => write!(f, "a long string"),
            Node::List(_) => write!(f, "a list"),
            Node::Object(_) => write!(f, "an object"),
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Integer(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Real(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Node, A::Error> {
        let mut object = Object::new();
        while let Some(key) = members.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(de::Error::custom(format_args!(
                    "the key {key:?} is given twice"
                )));
            }
            let value = members.next_value()?;
            object.insert(key, value);
        }
        Ok(Node::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Node, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[test]
    fn integers_are_not_fractions() {
        assert_eq!(parse("7").unwrap(), Node::Integer(7));
        assert_eq!(parse("-7").unwrap(), Node::Integer(-7));
        assert_eq!(parse("7.0").unwrap(), Node::Real(7.0));
        assert_eq!(
            parse("18446744073709551615").unwrap(),
            Node::Integer(u64::MAX.into())
        );
        assert!(matches!(
            parse("18446744073709551616").unwrap(),
            Node::Real(_)
        ));
        assert!(Node::Integer(7).means_the_same(&Node::Real(7.0)));
        assert!(!Node::Integer(1).means_the_same(&Node::Bool(true)));
    }

    #[test]
    fn a_key_given_twice_is_refused() {
        assert!(
            parse(r#"{"a": {"b": 1, "b": 1}}"#)
                .unwrap_err()
                .to_string()
                .contains("\"b\" is given twice")
        );
        assert!(parse(r#"{"a": {"b": 1}, "c": {"b": 1}}"#).is_ok());
    }

    #[test]
    fn depth_is_bounded() {
        assert!(parse(&"[".repeat(100_000)).is_err());
    }
}
