//! Tensors held in memory, and reading them from safetensors files. It shares nothing with the library's own reader, so
//! that the two check each other; it trusts its files.

use std::collections::BTreeMap;
use std::path::Path;

use k3::checkpoint::names;
use k3::kernels::{Bf16, Weights, widen};

/// The elements of a tensor, in row order.
#[derive(Clone, Debug)]
pub enum Values {
    F32(Vec<f32>),
    Bf16(Vec<Bf16>),
    U8(Vec<u8>),
}

#[derive(Clone, Debug)]
pub struct Tensor {
    pub shape: Vec<usize>,
    pub values: Values,
}

impl Tensor {
    pub fn f32(shape: &[usize], values: Vec<f32>) -> Self {
        assert_eq!(shape.iter().product::<usize>(), values.len(), "{shape:?}");
        Self {
            shape: shape.to_vec(),
            values: Values::F32(values),
        }
    }

    fn from_file(dtype: &str, shape: Vec<usize>, bytes: &[u8]) -> Self {
        let values = match dtype {
            "F32" => Values::F32(le_floats(bytes)),
            "BF16" => Values::Bf16(bytes.as_chunks::<2>().0.to_vec()),
            "U8" => Values::U8(bytes.to_vec()),
            other => panic!("no test reads {other}"),
        };
        let tensor = Self { shape, values };
        assert_eq!(tensor.shape.iter().product::<usize>(), tensor.len());
        tensor
    }

    fn len(&self) -> usize {
        match &self.values {
            Values::F32(v) => v.len(),
            Values::Bf16(v) => v.len(),
            Values::U8(v) => v.len(),
        }
    }

    /// All elements as f32.
    pub fn floats(&self) -> Vec<f32> {
        match &self.values {
            Values::F32(v) => v.clone(),
            Values::Bf16(v) => v.iter().map(|&w| widen(w)).collect(),
            Values::U8(v) => v.iter().map(|&b| f32::from(b)).collect(),
        }
    }

    /// The bytes of a U8 tensor.
    pub fn bytes(&self) -> &[u8] {
        match &self.values {
            Values::U8(v) => v,
            _ => panic!("not bytes"),
        }
    }

    /// A matrix as the kernels take it.
    pub fn weights(&self) -> Weights<'_> {
        match &self.values {
            Values::F32(v) => Weights::F32(v),
            Values::Bf16(v) => Weights::Bf16(v),
            Values::U8(_) => panic!("bytes are no matrix"),
        }
    }
}

/// Tensors by name, and the strings of a file's metadata.
#[derive(Clone, Debug, Default)]
pub struct Tensors {
    tensors: BTreeMap<String, Tensor>,
    metadata: BTreeMap<String, String>,
}

impl Tensors {
    /// Everything in a safetensors file. A file that is not there fails the test.
    pub fn read(path: &Path) -> Self {
        let file = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let (length, rest) = file.split_first_chunk::<8>().expect("a header length");
        let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
        let header: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(header).unwrap();
        let mut all = Self::default();
        for (name, entry) in header {
            if name == "__metadata__" {
                all.metadata = serde_json::from_value(entry).unwrap();
                continue;
            }
            let shape: Vec<usize> = serde_json::from_value(entry["shape"].clone()).unwrap();
            let [start, end]: [usize; 2] =
                serde_json::from_value(entry["data_offsets"].clone()).unwrap();
            let dtype = entry["dtype"].as_str().unwrap();
            all.insert(&name, Tensor::from_file(dtype, shape, &data[start..end]));
        }
        all
    }

    /// Every shard of a checkpoint folder.
    pub fn read_checkpoint(folder: &Path) -> Self {
        let mut all = Self::default();
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|e| e == "safetensors") {
                all.tensors.extend(Self::read(&path).tensors);
            }
        }
        all
    }

    /// Adds a tensor; a name may not come twice.
    pub fn insert(&mut self, name: &str, tensor: Tensor) {
        let former = self.tensors.insert(name.to_owned(), tensor);
        assert!(former.is_none(), "{name} twice");
    }

    /// Puts another tensor in the place of one that is there.
    pub fn replace(&mut self, name: &str, tensor: Tensor) {
        assert!(self.tensors.insert(name.to_owned(), tensor).is_some());
    }

    /// The tensors named by their suffix in a layer, under their full names.
    pub fn in_layer(&self, layer: usize) -> Self {
        let mut all = Self::default();
        for (suffix, tensor) in &self.tensors {
            all.insert(&names::in_layer(layer, suffix), tensor.clone());
        }
        all
    }

    pub fn find(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    pub fn get(&self, name: &str) -> &Tensor {
        self.find(name)
            .unwrap_or_else(|| panic!("no tensor {name}"))
    }

    pub fn floats(&self, name: &str) -> Vec<f32> {
        self.get(name).floats()
    }

    pub fn bytes(&self, name: &str) -> &[u8] {
        self.get(name).bytes()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// A value of the metadata.
    pub fn meta<T: std::str::FromStr>(&self, key: &str) -> T {
        let text = self.metadata.get(key);
        let text = text.unwrap_or_else(|| panic!("no metadata {key}"));
        let value = text.parse().ok();
        value.unwrap_or_else(|| panic!("metadata {key} is {text}"))
    }
}

/// Little-endian f32.
pub fn le_floats(bytes: &[u8]) -> Vec<f32> {
    let values = bytes.as_chunks::<4>().0.iter();
    values.map(|b| f32::from_le_bytes(*b)).collect()
}

/// From [rows][columns] to [columns][rows].
pub fn turned(values: &[f32], columns: usize) -> Vec<f32> {
    let rows = values.len() / columns;
    let at = |i: usize| values[i % rows * columns + i / rows];
    (0..values.len()).map(at).collect()
}
