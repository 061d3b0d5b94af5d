//! What a `config.json` says about the architecture beyond sizes. This program computes one architecture, so where a
//! file says another thing, it is refused; where it says nothing, nothing is assumed beyond the release.

use super::config_reader::{Place, Reader};
use super::json::{Node, Object};

impl Reader<'_> {
    /// What the release says about the way it is built, where a file says it: this program computes nothing else.
    pub(super) fn architecture(&mut self) {
        let text = |s: &str| Node::Text(s.to_owned());
        for (name, wanted) in [
            ("hidden_act", text("situ")),
            ("mla_use_nope", Node::Bool(true)),
            ("moe_layer_freq", Node::Integer(1)),
            ("moe_router_activation_func", text("sigmoid")),
            ("use_grouped_topk", Node::Bool(true)),
            ("num_expert_group", Node::Integer(1)),
            ("topk_group", Node::Integer(1)),
            ("topk_method", text("noaux_tc")),
            ("num_nextn_predict_layers", Node::Integer(0)),
            ("tie_word_embeddings", Node::Bool(false)),
        ] {
            self.only(Place::Text, name, &wanted);
        }
        self.only(Place::Linear, "use_full_rank_gate", &Node::Bool(true));
        for node in self.values(Place::Text, &["quantization_config"]) {
            match node {
                Node::Object(object) => self.quantization(object),
                Node::Null => {}
                other => self.problem(format_args!(
                    "quantization_config must be an object, is {other}"
                )),
            }
        }
    }

    /// Experts are MXFP4: 4-bit floats in groups of 32 under one power of two.
    fn quantization(&mut self, object: &Object) {
        let text = |s: &str| Node::Text(s.to_owned());
        self.member(
            "quantization_config",
            object,
            "format",
            &text("mxfp4-pack-quantized"),
            true,
        );
        self.member(
            "quantization_config",
            object,
            "quant_method",
            &text("compressed-tensors"),
            false,
        );
        let groups = match object.get("config_groups") {
            Some(Node::Object(groups)) if !groups.is_empty() => groups,
            _ => {
                return self.problem(
                    "quantization_config.config_groups must be an object with a group in it",
                );
            }
        };
        for (name, group) in groups {
            let Node::Object(group) = group else {
                self.problem(format_args!(
                    "quantization_config.config_groups.{name} must be an object"
                ));
                continue;
            };
            self.member(name, group, "format", &text("mxfp4-pack-quantized"), false);
            let Some(Node::Object(weights)) = group.get("weights") else {
                self.problem(format_args!(
                    "quantization_config.config_groups.{name}.weights must be an object"
                ));
                continue;
            };
            let name = format!("{name}.weights");
            self.member(&name, weights, "num_bits", &Node::Integer(4), true);
            self.member(&name, weights, "group_size", &Node::Integer(32), true);
            self.member(&name, weights, "type", &text("float"), true);
            self.member(&name, weights, "symmetric", &Node::Bool(true), false);
            self.member(&name, weights, "strategy", &text("group"), false);
            self.member(&name, weights, "dynamic", &Node::Bool(false), false);
        }
    }

    fn member(
        &mut self,
        object_name: &str,
        object: &Object,
        name: &str,
        wanted: &Node,
        required: bool,
    ) {
        match object.get(name) {
            Some(node) if node == wanted => {}
            Some(node) => self.problem(format_args!(
                "{object_name}.{name} must be {wanted}, is {node}"
            )),
            None if required => self.problem(format_args!("{object_name}.{name} is missing")),
            None => {}
        }
    }

    /// A key that need not be there, but when it is, in whatever place, says one thing only.
    pub(super) fn only(&mut self, place: Place, name: &str, wanted: &Node) {
        for node in self.values(place, &[name]) {
            if *node != Node::Null && node != wanted {
                self.problem(format_args!("{name} must be {wanted}, is {node}"));
            }
        }
    }
}
