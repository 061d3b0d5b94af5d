//! Memory to compute in: taken and given back many times a token, and by no other part of the program. It stands on 2 MiB pages
//! and stays mapped, since memory that the system hands out anew for every product costs a prompt a tenth of its time.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Buffer, Error};

/// Bytes that are mapped at least. Only what was used is resident.
const LEAST: usize = 256 << 20;

/// Where spaces are taken from. Its copies are one and the same.
#[derive(Clone, Default)]
pub struct Workspace(Arc<Mutex<Vec<Region>>>);

/// One mapping.
struct Region {
    bytes: usize,
    /// What is not taken, in ascending place; no two of them are neighbours.
    free: Vec<Buffer>,
}

/// Numbers to be written and read: nobody knows what they are before. They go back when this is dropped.
pub struct Space {
    /// Always there but while it is dropped.
    buffer: Option<Buffer>,
    len: usize,
    region: usize,
    workspace: Workspace,
}

impl Workspace {
    /// Room for `len` numbers. What it holds is left from earlier.
    ///
    /// # Errors
    /// [`Error::Memory`] when the system has no room.
    pub fn take(&self, len: usize) -> Result<Space, Error> {
        let bytes = (len * size_of::<f32>()).max(1);
        let mut regions = self.regions();
        let found = regions
            .iter_mut()
            .enumerate()
            .find_map(|(i, region)| Some((i, region.take(bytes)?)));
        let (region, buffer) = match found {
            Some(found) => found,
            None => {
                // As much again, so that there are few of them.
                let mapped = regions.iter().map(|region| region.bytes).sum();
                let more = Buffer::new(bytes.max(mapped).max(LEAST));
                let mut buffer = more.or_else(|_| Buffer::new(bytes))?;
                let whole = buffer.as_slice().len();
                regions.push(Region {
                    bytes: whole,
                    free: buffer.split_off(bytes).into_iter().collect(),
                });
                (regions.len() - 1, buffer)
            }
        };
        Ok(Space {
            buffer: Some(buffer),
            len,
            region,
            workspace: self.clone(),
        })
    }

    /// Gives back to the system what is not taken, as far as whole mappings are.
    pub fn trim(&self) {
        let mut regions = self.regions();
        while regions.pop_if(|region| region.is_free()).is_some() {}
    }

    fn regions(&self) -> MutexGuard<'_, Vec<Region>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Region {
    /// The first run of at least so many bytes.
    fn take(&mut self, bytes: usize) -> Option<Buffer> {
        let fits = |free: &Buffer| free.as_slice().len() >= bytes;
        let at = self.free.iter().position(fits)?;
        match self.free[at].split_off(bytes) {
            Some(behind) => Some(std::mem::replace(&mut self.free[at], behind)),
            None => Some(self.free.remove(at)),
        }
    }

    fn give_back(&mut self, buffer: Buffer) {
        let place = buffer.as_slice().as_ptr();
        let at = self
            .free
            .partition_point(|free| free.as_slice().as_ptr() < place);
        self.free.insert(at, buffer);
        for before in [Some(at), at.checked_sub(1)].into_iter().flatten() {
            if before + 1 < self.free.len() {
                let behind = self.free.remove(before + 1);
                if let Err(apart) = self.free[before].join(behind) {
                    self.free.insert(before + 1, apart);
                }
            }
        }
    }

    fn is_free(&self) -> bool {
        let whole = |free: &Buffer| free.as_slice().len() == self.bytes;
        self.free.first().is_some_and(whole)
    }
}

impl Deref for Space {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        let all = self.buffer.as_ref().map(Buffer::as_floats);
        &all.unwrap_or_default()[..self.len]
    }
}

impl DerefMut for Space {
    fn deref_mut(&mut self) -> &mut [f32] {
        let all = self.buffer.as_mut().map(Buffer::as_mut_floats);
        &mut all.unwrap_or_default()[..self.len]
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take()
            && let Some(region) = self.workspace.regions().get_mut(self.region)
        {
            region.give_back(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Free runs of every region, as bytes.
    fn free(workspace: &Workspace) -> Vec<Vec<usize>> {
        let regions = workspace.regions();
        let bytes = |region: &Region| region.free.iter().map(|b| b.as_slice().len()).collect();
        regions.iter().map(bytes).collect()
    }

    #[test]
    fn what_is_given_back_is_taken_again_and_neighbours_become_one() {
        let workspace = Workspace::default();
        let mut spaces: Vec<Space> = [1000, 2000, 3000, 0]
            .map(|len| workspace.take(len).unwrap())
            .into();
        for (i, space) in spaces.iter_mut().enumerate() {
            space.fill(i as f32);
        }
        for (i, space) in spaces.iter().enumerate() {
            assert!(space.iter().all(|x| *x == i as f32));
        }
        let places: Vec<_> = spaces.iter().map(|s| s.as_ptr()).collect();
        let rest = LEAST - 4096 - 8192 - 12288 - 4096;
        assert_eq!(free(&workspace), [[rest]]);
        // The second and the third: the first run that is large enough is taken.
        drop(spaces.remove(1));
        assert_eq!(free(&workspace), [[8192, rest]]);
        drop(spaces.remove(1));
        assert_eq!(free(&workspace), [[8192 + 12288, rest]]);
        let both = workspace.take(4096).unwrap();
        assert_eq!(both.as_ptr(), places[1]);
        assert_eq!((both.len(), both[0], both[3000]), (4096, 1.0, 2.0));
        drop(both);
        drop(spaces);
        assert_eq!(free(&workspace), [[LEAST]]);
    }

    #[test]
    fn it_grows_and_shrinks_by_whole_mappings() {
        let workspace = Workspace::default();
        let small = workspace.take(10).unwrap();
        let large = workspace.take(LEAST).unwrap();
        assert_eq!(free(&workspace).len(), 2);
        drop(large);
        workspace.trim();
        assert_eq!(free(&workspace), [[LEAST - 4096]]);
        drop(small);
        workspace.trim();
        assert!(free(&workspace).is_empty());
        let again = workspace.take(10).unwrap();
        assert!(again.iter().all(|x| *x == 0.0));
    }

    #[test]
    fn spaces_are_used_and_given_back_by_any_thread() {
        let workspace = Workspace::default();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let workspace = &workspace;
                scope.spawn(move || {
                    for round in 0..200 {
                        let mut space = workspace.take(100 * thread + round).unwrap();
                        space.fill(thread as f32);
                        assert!(space.iter().all(|x| *x == thread as f32));
                    }
                });
            }
        });
        assert_eq!(free(&workspace), [[LEAST]]);
    }
}
