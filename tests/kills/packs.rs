//! `k3 pack` killed while it packs: what is there is a whole pack or none, and the next `k3 pack` finishes it, to the byte.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use k3::checkpoint::{Checkpoint, Config};
use k3::stream::pack::{self, Checked, Pack};

use crate::draw::XorShift;
use crate::{Blow, CALLS, Tally, can_trace, counted, k3, names, striking, tracer};

/// What is packed.
pub const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/tiny-b");
const WHOLE: [&str; 2] = ["pack.json", "trunk.bin"];

/// The pack that nothing killed.
pub struct Right {
    checkpoint: Arc<Checkpoint>,
    files: [Vec<u8>; 2],
    calls: BTreeMap<&'static str, usize>,
}

fn contents(out: &Path) -> [Vec<u8>; 2] {
    WHOLE.map(|name| fs::read(out.join(name)).unwrap())
}

impl Right {
    /// Packs, and counts calls.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (out, log) = (folder.path().join("pack"), folder.path().join("calls"));
        let packed = k3(&tracer(&log, &[]), &["pack", MODEL, out.to_str().unwrap()]);
        assert_eq!(packed.code, Some(0), "{}", packed.err);
        assert_eq!(names(&out), WHOLE);
        let config = Config::load(&Path::new(MODEL).join("config.json")).unwrap();
        Self {
            checkpoint: Arc::new(Checkpoint::open(MODEL.as_ref(), config).unwrap()),
            files: contents(&out),
            calls: counted(&CALLS, &log),
        }
    }

    /// What a kill left is a whole pack, or is taken for none. Whether there is one.
    pub fn check(&self, out: &Path) -> bool {
        let whole = Pack::open(out, &self.checkpoint).is_ok();
        if whole {
            let checked = pack::check(out, &self.checkpoint, &mut |_, _, _| true).unwrap();
            assert!(matches!(checked, Checked::Right(_)));
            assert!(contents(out) == self.files);
        } else {
            assert!(!out.join("pack.json").exists(), "a part has a manifest");
        }
        whole
    }

    /// Finishes a pack and checks that it is the one that nothing came over.
    pub fn finish(&self, out: &Path) {
        let ended = k3(&[], &["pack", MODEL, out.to_str().unwrap()]);
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        assert!(contents(out) == self.files, "another pack");
        assert_eq!(names(out), WHOLE, "something is left over");
    }

    fn case(&self, draw: &mut XorShift, tally: &mut Tally) {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("pack");
        let words = ["pack", MODEL, out.to_str().unwrap()];
        let calls: Vec<_> = self.calls.iter().collect();
        loop {
            let (call, most) = calls[draw.below(calls.len())];
            let ended = k3(&striking(call, 1 + draw.below(*most), Blow::Kill), &words);
            assert!(ended.killed || ended.code == Some(0), "{}", ended.err);
            tally.note(call, ended.killed);
            let whole = self.check(&out);
            assert!(whole || ended.killed);
            tally.partial += usize::from(!whole && !names(&out).is_empty());
            if !ended.killed || draw.below(3) > 0 {
                break;
            }
        }
        self.finish(&out);
    }
}

fn campaign(seed: u32, kills: usize) {
    if !can_trace() {
        println!("kills of k3 pack: NOT RUN, there is no strace that may trace");
        return;
    }
    let right = Right::new();
    let (mut draw, mut tally) = (XorShift::new(seed), Tally::default());
    while tally.kills < kills {
        right.case(&mut draw, &mut tally);
    }
    println!("pack, seed {seed}: {tally:?}");
}

#[test]
fn a_killed_pack_is_no_pack_and_is_finished_by_the_same_command() {
    campaign(20_261_130, 12);
}

#[test]
#[ignore = "takes a minute: cargo test --test kills -- --ignored --nocapture"]
fn what_three_hundred_kills_of_packing_leave() {
    campaign(2, 300);
}
