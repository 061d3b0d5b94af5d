//! Finds and types the keys of a `config.json`, collecting every problem instead of stopping at the first.

use std::fmt::Display;

use super::json::{Node, Object};

/// As many as the C engines take; the release has 24.
const MAX_FULL_ATTENTION: usize = 128;
/// No size of a model comes near it.
const MAX_INTEGER: usize = 1 << 32;

/// The objects in which a key is looked for.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// `text_config`, then the root.
    Text,
    /// `linear_attn_config` first: `head_dim` and `num_heads` may also stand, with another meaning, in the text
    /// model's own keys.
    Linear,
}

/// The objects of a file, and what was found wrong with them.
pub(super) struct Reader<'a> {
    text: Vec<&'a Object>,
    linear: Vec<&'a Object>,
    /// What is wrong, in the order in which it was found.
    pub(super) problems: Vec<String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(root: &'a Object) -> Reader<'a> {
        let mut problems = Vec::new();
        let mut child = |parent: &'a Object, key: &str| match parent.get(key) {
            Some(Node::Object(object)) => Some(object),
            Some(other) => {
                problems.push(format!("{key} must be an object, is {other}"));
                None
            }
            None => None,
        };
        let text: Vec<&Object> = child(root, "text_config")
            .into_iter()
            .chain([root])
            .collect();
        let mut linear: Vec<&Object> = text
            .iter()
            .filter_map(|object| child(object, "linear_attn_config"))
            .collect();
        linear.extend(&text);
        Reader {
            text,
            linear,
            problems,
        }
    }

    pub(super) fn problem(&mut self, text: impl Display) {
        self.problems.push(text.to_string());
    }

    /// Every value that a key has, in the order of the search.
    pub(super) fn values(&self, place: Place, names: &[&str]) -> Vec<&'a Node> {
        let objects = match place {
            Place::Text => &self.text,
            Place::Linear => &self.linear,
        };
        objects
            .iter()
            .flat_map(|&object| names.iter().filter_map(|&name| object.get(name)))
            .collect()
    }

    /// The one value of a key. Two places that disagree are a problem, because nothing says which is meant.
    fn find(&mut self, place: Place, names: &[&str]) -> Option<&'a Node> {
        let values = self.values(place, names);
        let first = *values.first()?;
        if let Some(other) = values.iter().find(|other| !first.means_the_same(other)) {
            self.problem(format_args!(
                "{} is {first} in one place and {other} in another",
                label(names)
            ));
        }
        Some(first)
    }

    fn required(&mut self, place: Place, names: &[&str]) -> Option<&'a Node> {
        let found = self.find(place, names);
        if found.is_none() {
            self.problem(format_args!("{} is missing", label(names)));
        }
        found
    }

    /// A required integer that is at least `least`. After a problem the value is `least`; it is never used.
    pub(super) fn integer(&mut self, place: Place, names: &[&str], least: usize) -> usize {
        let Some(node) = self.required(place, names) else {
            return least;
        };
        let Node::Integer(value) = *node else {
            self.problem(format_args!(
                "{} must be an integer, is {node}",
                label(names)
            ));
            return least;
        };
        match usize::try_from(value) {
            Ok(value) if (least..MAX_INTEGER).contains(&value) => value,
            _ if value < least as i128 => {
                self.problem(format_args!(
                    "{} must be at least {least}, is {value}",
                    label(names)
                ));
                least
            }
            _ => {
                self.problem(format_args!(
                    "{} is impossibly large: {value}",
                    label(names)
                ));
                least
            }
        }
    }

    pub(super) fn size(&mut self, name: &str) -> usize {
        self.integer(Place::Text, &[name], 1)
    }

    /// A required number that is finite as an f32 and for which `good` holds; `rule` says what that is.
    pub(super) fn float(
        &mut self,
        place: Place,
        names: &[&str],
        rule: &str,
        good: fn(f32) -> bool,
    ) -> f32 {
        let Some(node) = self.required(place, names) else {
            return 1.0;
        };
        let Some(value) = node.number().map(|x| x as f32) else {
            self.problem(format_args!("{} must be a number, is {node}", label(names)));
            return 1.0;
        };
        if !value.is_finite() || !good(value) {
            self.problem(format_args!("{} must be {rule}, is {node}", label(names)));
        }
        value
    }

    pub(super) fn positive(&mut self, names: &[&str]) -> f32 {
        self.float(Place::Text, names, "a finite number above 0", |x| x > 0.0)
    }

    /// A switch of the architecture that is on when the file does not speak of it.
    pub(super) fn switch(&mut self, name: &str) -> bool {
        match self.find(Place::Text, &[name]) {
            None => true,
            Some(Node::Bool(value)) => *value,
            Some(other) => {
                self.problem(format_args!("{name} must be true or false, is {other}"));
                true
            }
        }
    }

    /// A key that this program reads only for what it says about the model: the first value that is not null.
    pub(super) fn note<T: TryFrom<i128>>(&mut self, name: &str) -> Option<T> {
        let node = self
            .values(Place::Text, &[name])
            .into_iter()
            .find(|node| **node != Node::Null)?;
        let value = match node {
            Node::Integer(value) => T::try_from(*value).ok(),
            _ => None,
        };
        if value.is_none() {
            self.problem(format_args!(
                "{name} must be an integer that is not negative, is {node}"
            ));
        }
        value
    }

    /// The layers with full attention, counted from 1 up to `most`, in ascending order.
    pub(super) fn full_attention(&mut self, most: usize) -> Vec<usize> {
        const NAME: &str = "full_attn_layers";
        let Some(node) = self.required(Place::Linear, &[NAME]) else {
            return Vec::new();
        };
        let list = self.layer_list(NAME, node, most);
        if matches!(node, Node::List(items) if items.is_empty()) {
            self.problem(format_args!("{NAME} is empty"));
        }
        if list.len() > MAX_FULL_ATTENTION {
            let count = list.len();
            self.problem(format_args!(
                "{NAME} holds {count} layers, more than {MAX_FULL_ATTENTION}"
            ));
        }
        list
    }

    /// The KDA layers, counted from 1 up to `most`, where the file lists them.
    pub(super) fn kda_layers(&mut self, most: usize) -> Option<Vec<usize>> {
        let node = self.find(Place::Linear, &["kda_layers"])?;
        (*node != Node::Null).then(|| self.layer_list("kda_layers", node, most))
    }

    fn layer_list(&mut self, name: &str, node: &Node, most: usize) -> Vec<usize> {
        let Node::List(items) = node else {
            self.problem(format_args!("{name} must be a list of integers, is {node}"));
            return Vec::new();
        };
        let mut list = Vec::new();
        for item in items {
            match item {
                Node::Integer(n) if (1..=most as i128).contains(n) => list.push(*n as usize),
                Node::Integer(n) => {
                    self.problem(format_args!(
                        "{name} holds {n}, outside 1 to {most} (it counts from 1)"
                    ));
                }
                other => self.problem(format_args!(
                    "{name} must hold integers only, holds {other}"
                )),
            }
        }
        if !list.is_sorted_by(|a, b| a < b) {
            self.problem(format_args!("{name} must ascend and hold each layer once"));
        }
        list
    }
}

/// A key as messages show it, with the other name it may have.
fn label(names: &[&str]) -> String {
    match names {
        [name, alias] => format!("{name} (or {alias})"),
        _ => names.concat(),
    }
}
