//! The demo model that ships inside the program: unpacked once into a folder, then read like any checkpoint.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::atomic::{Access, private_folder, replace};
use super::{Error, hex};

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_bytes!(concat!("../../assets/demo/model/", $name)).as_slice())),*]
    };
}

/// Name and content of every file.
static FILES: [(&str, &[u8]); 7] = files![
    "config.json",
    "model-00001-of-000003.safetensors",
    "model-00002-of-000003.safetensors",
    "model-00003-of-000003.safetensors",
    "model.safetensors.index.json",
    "tiktoken.model",
    "tokenizer_config.json",
];

/// Sees to it that the demo model stands unpacked below `cache`, and gives its folder. The folder's name is a hash of the
/// content: another version of the program unpacks another one. A file that was damaged is replaced.
///
/// # Errors
/// The folder cannot be written.
pub fn unpack(cache: &Path) -> Result<PathBuf, Error> {
    let folder = cache.join(format!("demo-{}", fingerprint()));
    private_folder(&folder).map_err(|e| Error::io(&folder, "create", e))?;
    for (name, content) in FILES {
        let path = folder.join(name);
        if fs::read(&path).is_ok_and(|there| there == content) {
            continue;
        }
        // Written beside and renamed: a second program that unpacks at the same time never reads a part.
        replace(&path, Access::Private, content).map_err(|e| Error::io(&path, "write", e))?;
    }
    Ok(folder)
}

/// The beginning of a hash over names and contents, in hexadecimal.
fn fingerprint() -> String {
    let mut hash = Sha256::new();
    for (name, content) in FILES {
        hash.update(name);
        hash.update((content.len() as u64).to_le_bytes());
        hash.update(content);
    }
    hex(&hash.finalize()[..6])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::{Checkpoint, Config};

    #[test]
    fn it_is_a_whole_checkpoint_of_at_most_12_mb() {
        let cache = tempfile::tempdir().unwrap();
        let folder = unpack(cache.path()).unwrap();
        let config = Config::load(&folder.join("config.json")).unwrap();
        let layers = config.layers();
        Checkpoint::open(&folder, config)
            .unwrap()
            .check(layers)
            .unwrap();
        assert!(
            FILES
                .iter()
                .map(|(_, content)| content.len())
                .sum::<usize>()
                <= 12_000_000
        );
    }

    #[test]
    fn a_damaged_file_is_replaced_and_a_good_one_left_alone() {
        let cache = tempfile::tempdir().unwrap();
        let folder = unpack(cache.path()).unwrap();
        let (config, shard) = (folder.join(FILES[0].0), folder.join(FILES[1].0));
        fs::write(&config, "{}").unwrap();
        let before = fs::metadata(&shard).unwrap().modified().unwrap();
        assert_eq!(unpack(cache.path()).unwrap(), folder);
        assert_eq!(fs::read(&config).unwrap(), FILES[0].1);
        assert_eq!(fs::metadata(&shard).unwrap().modified().unwrap(), before);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), FILES.len());
    }

    #[test]
    fn programs_that_unpack_at_the_same_time_share_one_whole_model() {
        let cache = tempfile::tempdir().unwrap();
        let together = std::sync::Barrier::new(4);
        let unpacked = || {
            together.wait();
            let folder = unpack(cache.path()).unwrap();
            // Whole as soon as any of them says so, whatever the others are still writing.
            for (name, content) in FILES {
                assert_eq!(fs::read(folder.join(name)).unwrap(), content, "{name}");
            }
            folder
        };
        let folders = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(unpacked)).collect();
            threads
                .into_iter()
                .map(|t| t.join().unwrap())
                .collect::<Vec<_>>()
        });
        assert!(folders.iter().all(|folder| *folder == folders[0]));
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1);
        assert_eq!(fs::read_dir(&folders[0]).unwrap().count(), FILES.len());
    }

    #[test]
    fn a_file_cut_short_or_removed_comes_back() {
        let cache = tempfile::tempdir().unwrap();
        let folder = unpack(cache.path()).unwrap();
        let [(first, whole), (second, _), ..] = FILES;
        fs::write(folder.join(first), &whole[..whole.len() / 2]).unwrap();
        fs::remove_file(folder.join(second)).unwrap();
        unpack(cache.path()).unwrap();
        for (name, content) in FILES {
            assert_eq!(fs::read(folder.join(name)).unwrap(), content, "{name}");
        }
    }
}
