//! The file of an identity: certificates and a private key in PEM form, readable by their owner only.
//!
//! [`super::Identity`] checks the contents of the certificates. Invariant: a file on which other users have
//! permissions is not read.

use super::error::IdentityFlaw;
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat};
use rustls_pki_types::pem::{PemObject, SectionKind};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The longest file that is read, in bytes.
const FILE_BYTES_MAX: usize = 256 << 10;
/// The permission bits of group and others.
const GROUP_AND_OTHERS: u32 = 0o077;

/// The contents of a file of certificates and a private key.
#[derive(Debug)]
pub struct Bundle {
    /// The certificates, in their order.
    pub certificates: Vec<CertificateDer<'static>>,
    /// The private keys.
    pub keys: Vec<PrivateKeyDer<'static>>,
    /// The version of the file.
    stamp: Stamp,
}

/// The version of a file: its inode number, its length, and the time of the last write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    number: u64,
    bytes: i64,
    written: (i64, i64),
}

impl Stamp {
    /// Returns the version of the file that is at this path now.
    pub(super) fn of(path: &Path) -> Result<Stamp, IdentityFlaw> {
        rustix::fs::stat(path).map(Stamp::new).map_err(system("reading"))
    }

    fn new(stat: Stat) -> Stamp {
        Stamp {
            device: stat.st_dev,
            number: stat.st_ino,
            bytes: stat.st_size,
            written: (stat.st_mtime, stat.st_mtime_nsec as i64),
        }
    }
}

impl Bundle {
    /// Reads a file of PEM sections. Text between the sections, and sections of other kinds, are ignored.
    ///
    /// # Errors
    /// If the file cannot be read, if other users have permissions on it, if it is too long, or if a section is cut
    /// or damaged.
    pub fn read(path: &Path) -> Result<Bundle, IdentityFlaw> {
        // Without NONBLOCK, opening a pipe would block before its type is checked.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file =
            rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(system("opening"))?;
        let stat = rustix::fs::fstat(&file).map_err(system("looking at"))?;
        let ours = rustix::process::geteuid().as_raw();
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(IdentityFlaw::NoFile);
        }
        if stat.st_uid != ours {
            return Err(IdentityFlaw::Owner { uid: stat.st_uid, ours });
        }
        if stat.st_mode & GROUP_AND_OTHERS != 0 {
            return Err(IdentityFlaw::Mode { mode: stat.st_mode });
        }
        let mut text = Vec::new();
        let read = File::from(file).take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut text);
        read.map_err(|error| system("reading")(errno(&error)))?;
        if text.len() > FILE_BYTES_MAX {
            return Err(IdentityFlaw::TooLong { max: FILE_BYTES_MAX });
        }
        Bundle::parse(&text, Stamp::new(stat))
    }

    fn parse(text: &[u8], stamp: Stamp) -> Result<Bundle, IdentityFlaw> {
        let mut bundle = Bundle { certificates: Vec::new(), keys: Vec::new(), stamp };
        for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text) {
            let (kind, der) =
                section.map_err(|error| IdentityFlaw::Pem { reason: error.to_string() })?;
            match kind {
                SectionKind::Certificate => bundle.certificates.push(der.into()),
                kind => bundle.keys.extend(PrivateKeyDer::from_pem(kind, der)),
            }
        }
        Ok(bundle)
    }

    pub(super) fn stamp(&self) -> Stamp {
        self.stamp
    }
}

fn system(act: &'static str) -> impl Fn(rustix::io::Errno) -> IdentityFlaw {
    move |error| IdentityFlaw::System { act, error }
}

fn errno(error: &io::Error) -> rustix::io::Errno {
    rustix::io::Errno::from_io_error(error).unwrap_or(rustix::io::Errno::IO)
}
