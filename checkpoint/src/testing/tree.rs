//! A file tree in memory that knows what would survive a power cut.
//!
//! Bytes survive once their file was synced, entries once their directory was. At a cut each file
//! keeps any prefix of what was appended since, perhaps with zeros in place of its end, and each
//! directory any prefix of the changes since, in their order (as journaling file systems do).

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Component, Path};

/// Number of a file or directory, whatever its name.
pub(super) type Inode = u64;

const ROOT: Inode = 0;

type Entries = BTreeMap<String, Inode>;

#[derive(Debug)]
enum Node {
    File {
        bytes: Vec<u8>,
        /// How many of the bytes are durable.
        synced: usize,
    },
    Directory {
        entries: Entries,
        durable: Entries,
        pending: Vec<Change>,
    },
}

#[derive(Clone, Debug)]
enum Change {
    Link(String, Inode),
    Unlink(String),
    Rename(String, String),
}

impl Change {
    fn apply(&self, entries: &mut Entries) {
        match self {
            Self::Link(name, inode) => drop(entries.insert(name.clone(), *inode)),
            Self::Unlink(name) => drop(entries.remove(name)),
            Self::Rename(from, to) => {
                let inode = entries.remove(from).expect("renamed entries exist");
                entries.insert(to.clone(), inode);
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Tree(Vec<Node>);

fn directory() -> Node {
    Node::Directory {
        entries: Entries::new(),
        durable: Entries::new(),
        pending: Vec::new(),
    }
}

fn split(path: &Path) -> io::Result<(&Path, String)> {
    match (
        path.parent(),
        path.file_name().and_then(|name| name.to_str()),
    ) {
        (Some(parent), Some(name)) => Ok((parent, name.into())),
        _ => Err(ErrorKind::InvalidInput.into()),
    }
}

impl Tree {
    pub(super) fn new() -> Self {
        Self(vec![directory()])
    }

    fn node(&mut self, inode: Inode) -> &mut Node {
        &mut self.0[usize::try_from(inode).expect("inodes count nodes")]
    }

    fn entries(&self, inode: Inode) -> io::Result<&Entries> {
        match &self.0[usize::try_from(inode).expect("inodes count nodes")] {
            Node::Directory { entries, .. } => Ok(entries),
            Node::File { .. } => Err(ErrorKind::NotADirectory.into()),
        }
    }

    pub(super) fn find(&self, path: &Path) -> io::Result<Inode> {
        let mut inode = ROOT;
        for component in path.components() {
            let Component::Normal(name) = component else {
                continue;
            };
            let name = name.to_str().ok_or(ErrorKind::InvalidInput)?;
            inode = *self.entries(inode)?.get(name).ok_or(ErrorKind::NotFound)?;
        }
        Ok(inode)
    }

    fn change(&mut self, dir: Inode, change: Change) -> io::Result<()> {
        match self.node(dir) {
            Node::Directory {
                entries, pending, ..
            } => {
                change.apply(entries);
                pending.push(change);
                Ok(())
            }
            Node::File { .. } => Err(ErrorKind::NotADirectory.into()),
        }
    }

    fn add(&mut self, path: &Path, node: Node) -> io::Result<Inode> {
        let (parent, name) = split(path)?;
        let parent = self.find(parent)?;
        if self.entries(parent)?.contains_key(&name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let inode = self.0.len() as Inode;
        self.0.push(node);
        self.change(parent, Change::Link(name, inode))?;
        Ok(inode)
    }

    pub(super) fn add_file(&mut self, path: &Path) -> io::Result<Inode> {
        let file = Node::File {
            bytes: Vec::new(),
            synced: 0,
        };
        self.add(path, file)
    }

    pub(super) fn add_directory(&mut self, path: &Path) -> io::Result<()> {
        self.add(path, directory()).map(drop)
    }

    pub(super) fn bytes(&mut self, inode: Inode) -> io::Result<&mut Vec<u8>> {
        match self.node(inode) {
            Node::File { bytes, .. } => Ok(bytes),
            Node::Directory { .. } => Err(ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn sync_file(&mut self, inode: Inode) -> io::Result<()> {
        match self.node(inode) {
            Node::File { bytes, synced } => {
                *synced = bytes.len();
                Ok(())
            }
            Node::Directory { .. } => Err(ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
        let inode = self.find(path)?;
        match self.node(inode) {
            Node::Directory {
                entries,
                durable,
                pending,
            } => {
                durable.clone_from(entries);
                pending.clear();
                Ok(())
            }
            Node::File { .. } => Err(ErrorKind::NotADirectory.into()),
        }
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (parent, old) = split(from)?;
        let (other, new) = split(to)?;
        assert_eq!(parent, other, "the store renames within a directory");
        let source = self.find(from)?;
        if let Ok(target) = self.find(to) {
            let replaceable = self.entries(source).is_err() && self.entries(target).is_err();
            if !replaceable {
                return Err(ErrorKind::DirectoryNotEmpty.into());
            }
        }
        let parent = self.find(parent)?;
        self.change(parent, Change::Rename(old, new))
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.find(path)?;
        let (parent, name) = split(path)?;
        let parent = self.find(parent)?;
        self.change(parent, Change::Unlink(name))
    }

    pub(super) fn names(&self, path: &Path) -> io::Result<Vec<String>> {
        Ok(self.entries(self.find(path)?)?.keys().cloned().collect())
    }

    /// Bytes of all files that have a name below `inode`.
    fn used_below(&self, inode: Inode) -> u64 {
        match &self.0[usize::try_from(inode).expect("inodes count nodes")] {
            Node::File { bytes, .. } => bytes.len() as u64,
            Node::Directory { entries, .. } => {
                entries.values().map(|child| self.used_below(*child)).sum()
            }
        }
    }

    pub(super) fn used(&self) -> u64 {
        self.used_below(ROOT)
    }

    /// The power goes: what was not synced is lost, kept or torn as `draw(n)`, a number below n,
    /// decides.
    pub(super) fn cut_power(&mut self, mut draw: impl FnMut(usize) -> usize) {
        for node in &mut self.0 {
            match node {
                Node::File { bytes, synced } => {
                    bytes.truncate(*synced + draw(bytes.len() - *synced + 1));
                    let zeros = draw(bytes.len() - *synced + 1);
                    let length = bytes.len();
                    bytes[length - zeros..].fill(0);
                    *synced = length;
                }
                Node::Directory {
                    entries,
                    durable,
                    pending,
                } => {
                    for change in &pending[..draw(pending.len() + 1)] {
                        change.apply(durable);
                    }
                    pending.clear();
                    entries.clone_from(durable);
                }
            }
        }
    }
}
