//! `k3 download`: fetches the model by the `hf` client: one revision, room first, looked at afterwards. Nothing is fetched
//! by this program itself.

mod client;
mod pin;
mod room;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use self::client::Client;
use self::pin::Pin;
use super::quote::quoted;
use super::synth::size;
use super::{Exit, verify};
use crate::checkpoint::release;
use crate::cli::say;
use crate::stream::sums::known::is_commit;

/// Arguments of `k3 download`.
#[derive(Args)]
pub struct DownloadArgs {
    /// Folder for the model; it is made, or gone on with
    dir: PathBuf,
    /// Commit, branch or tag; what it is now is kept for all that follows (default: what the folder has, else a known commit)
    #[arg(long, value_name = "R")]
    revision: Option<String>,
    /// Repository
    #[arg(long, value_name = "NAME", default_value = release::REPOSITORY)]
    repository: String,
    /// Read every byte afterwards and compare it with the digests that came with the files
    #[arg(long)]
    full: bool,
}

/// Runs the command. The client's own progress is shown as it comes.
///
/// # Errors
/// There is no client, or no room; the client fails; what came is not right; a signal came.
pub fn run(arguments: &DownloadArgs) -> anyhow::Result<()> {
    let DownloadArgs {
        dir,
        revision,
        repository,
        full,
    } = arguments;
    if dir.exists() && !dir.is_dir() {
        return Err(refused(dir, "is not a folder").into());
    }
    if let Some(wrong) = revision.as_deref().filter(|name| !is_plain(name)) {
        return Err(
            Exit::Refused(format!("--revision {wrong:?} is the name of no revision")).into(),
        );
    }
    if !is_plain(repository) || repository.split('/').count() != 2 {
        let problem = format!("--repository {repository:?} is not of the form OWNER/NAME");
        return Err(Exit::Refused(problem).into());
    }
    let pin = Pin::load(dir)?;
    if let Some(pin) = &pin
        && pin.repository != *repository
    {
        let problem = format!(
            "holds {}, not {repository}; name another folder",
            pin.repository
        );
        return Err(refused(dir, &problem).into());
    }
    let there = pin.as_ref().map(|pin| pin.revision.clone());
    let wanted = revision.clone().or_else(|| there.clone());
    let wanted = wanted.unwrap_or_else(|| release::REVISION.to_owned());
    refuse_other(dir, there.as_deref(), &wanted)?;
    let known = *repository == release::REPOSITORY && wanted == release::REVISION;
    if known {
        room::refuse_full(dir, release::SHARD_BYTES)?;
    }
    let Some(client) = Client::find() else {
        return Err(Exit::Refused(steps(dir, repository, &wanted)).into());
    };

    fs::create_dir_all(dir).map_err(|e| refused(dir, &format!("cannot be made: {e}")))?;
    let commit = match is_commit(&wanted) {
        true => wanted.clone(),
        false => client.resolve(dir, repository, &wanted)?,
    };
    refuse_other(dir, there.as_deref(), &commit)?;
    let pin = Pin {
        repository: repository.clone(),
        revision: commit,
    };
    pin.save(dir)?;
    say!(
        "k3: {repository} at {} into {}",
        pin.revision,
        dir.display()
    );

    // What is small first: the index says how large the rest is.
    client.fetch(dir, &pin, &["--exclude", "*.safetensors"])?;
    let total = room::total(dir)?;
    room::refuse_full(dir, total)?;
    say!(
        "k3: {} in all, {} of it are here",
        size(total),
        size(room::there(dir))
    );
    client.fetch(dir, &pin, &["--max-workers", "16"])?;
    verify::after_download(dir, *full)?;
    if !full {
        say!(
            "k3: every byte is compared by k3 verify {} --full",
            quoted(dir)
        );
    }
    Ok(())
}

fn refused(dir: &Path, problem: &str) -> Exit {
    Exit::Refused(format!("{}: {problem}", dir.display()))
}

/// Whether a name can be handed on: it could be taken for a flag, or for two words, otherwise.
fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(plain)
}

/// A folder holds one revision: of two, the shards do not belong together.
fn refuse_other(dir: &Path, there: Option<&str>, wanted: &str) -> Result<(), Exit> {
    match there {
        Some(there) if is_commit(wanted) && there != wanted => Err(refused(
            dir,
            &format!(
                "holds revision {there}, and {wanted} is another one; leave --revision out, or name another folder"
            ),
        )),
        _ => Ok(()),
    }
}

/// What to do by hand where there is no client.
fn steps(dir: &Path, repository: &str, revision: &str) -> String {
    let folder = quoted(dir);
    format!(
        "there is no `hf` on PATH, the client of the Hugging Face Hub, which does the fetching. Either install it and run \
         the same command again:\n  \
         pip install -U huggingface_hub\n\
         or do by hand, on any machine that has it, what this command does:\n  \
         1. see that {} are free where the model is to be\n  \
         2. hf download {repository} --revision {revision} --local-dir {folder}\n     \
         (after a stop, the same again goes on from there)\n  \
         3. k3 verify {folder} --full",
        size(release::SHARD_BYTES)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_be_flags_or_more_are_refused() {
        for plain in ["main", "v1.0", "refs/pr/1", "moonshotai/Kimi-K3"] {
            assert!(is_plain(plain), "{plain}");
        }
        for wrong in ["", "-x", "--include", "a b", "a;b", "$(x)", ".", "../x"] {
            assert!(!is_plain(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_branch_may_be_the_folders_revision_and_another_commit_is_not() {
        let (dir, a, b) = (Path::new("folder"), "a".repeat(40), "b".repeat(40));
        assert!(refuse_other(dir, Some(&a), "main").is_ok());
        assert!(refuse_other(dir, None, &a).is_ok());
        assert!(refuse_other(dir, Some(&a), &a).is_ok());
        let error = refuse_other(dir, Some(&a), &b).unwrap_err().to_string();
        assert!(
            error.contains(&a) && error.contains("another folder"),
            "{error}"
        );
    }
}
