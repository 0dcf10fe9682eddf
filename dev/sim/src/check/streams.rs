//! What is known of each stream: what its writer has given, what its reader has taken, how either ended.

use upbeat_core::channel::stream::Tail;

use super::{Violation, violated};

/// Batches that a writer may have given and its reader has not begun to read, or not read to their ends: of a
/// result and of an argument.
const AHEAD: [u64; 2] = [1, 2];

/// Items that go in one message, and what stands behind them. Items are numbered from 0 in each stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) from: u64,
    pub(crate) items: u64,
    pub(crate) tail: Tail,
}

/// How a stream ended for its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// By its last item, or by its writer's word that there are no more.
    Ended(Tail),
    /// No more will come, and its writer has not said so.
    Cut,
    /// The reader is gone.
    Left,
}

/// What is known of all streams.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams {
    all: Vec<Stream>,
}

#[derive(Clone, Debug)]
struct Stream {
    is_result: bool,
    /// One of its nodes lies, so that what it carries is their affair.
    lies: bool,
    writer: Writer,
    reader: Reader,
    /// There is a reason for which it may end before its last item.
    excused: bool,
}

#[derive(Clone, Debug, Default)]
struct Writer {
    is_there: bool,
    items: u64,
    batches: u64,
    last: Option<Tail>,
    dropped: bool,
}

#[derive(Clone, Debug, Default)]
struct Reader {
    is_there: bool,
    items: u64,
    batches: u64,
    over: Option<Over>,
}

impl Streams {
    /// A stream in a result, or in arguments. Returns its number here.
    pub(crate) fn open(&mut self, is_result: bool, lies: bool) -> usize {
        let (writer, reader) = (Writer::default(), Reader::default());
        self.all.push(Stream { is_result, lies, writer, reader, excused: false });
        self.all.len() - 1
    }

    /// Whether one of its nodes lies.
    pub(crate) fn lies(&self, at: usize) -> bool {
        self.all[at].lies
    }

    /// Its writer is there.
    pub(crate) fn writes(&mut self, at: usize) {
        self.all[at].writer.is_there = true;
    }

    /// Its reader is there.
    pub(crate) fn reads(&mut self, at: usize) {
        self.all[at].reader.is_there = true;
    }

    /// It may end before its last item.
    pub(crate) fn excuse(&mut self, at: usize) {
        self.all[at].excused = true;
    }

    /// Its writer gives a batch.
    pub(crate) fn gives(&mut self, at: usize, batch: Batch) -> Result<(), Violation> {
        let Stream { is_result, lies, writer, reader, .. } = &mut self.all[at];
        if *lies {
            return Ok(());
        }
        if let Some(last) = writer.last {
            return violated(format!("stream {at} goes on behind its end, which was {last:?}"));
        }
        if writer.dropped {
            return violated(format!("stream {at} goes on, and its writer was dropped"));
        }
        writer.items += batch.items;
        writer.batches += u64::from(batch.items > 0);
        writer.last = (batch.tail != Tail::More).then_some(batch.tail);
        let ahead = writer.batches - reader.batches;
        if ahead > AHEAD[usize::from(!*is_result)] && reader.over.is_none() {
            return violated(format!("stream {at} is {ahead} batches ahead of its reader"));
        }
        Ok(())
    }

    /// Its reader takes a batch.
    pub(crate) fn takes(&mut self, at: usize, batch: Batch) -> Result<(), Violation> {
        let Stream { lies, writer, reader, .. } = &mut self.all[at];
        if *lies {
            return Ok(());
        }
        if let Some(over) = reader.over {
            return violated(format!("stream {at} is read behind its end, which was {over:?}"));
        }
        if batch.from != reader.items || batch.from + batch.items > writer.items {
            let next = reader.items;
            return violated(format!("stream {at}: {batch:?} comes, and item {next} is the next"));
        }
        reader.items += batch.items;
        reader.batches += u64::from(batch.items > 0);
        Ok(())
    }

    /// It is over for its reader. Only the first word counts.
    pub(crate) fn over(&mut self, at: usize, over: Over) -> Result<(), Violation> {
        let Stream { lies, writer, reader, excused, .. } = &mut self.all[at];
        if reader.over.is_some() {
            return Ok(());
        }
        reader.over = Some(over);
        let is_right = match over {
            Over::Ended(tail) => writer.last == Some(tail) && writer.items == reader.items,
            Over::Cut => *excused,
            Over::Left => true,
        };
        match is_right || *lies {
            true => Ok(()),
            false => violated(format!("stream {at} is over as {over:?}: {:?}", self.all[at])),
        }
    }

    /// Its writer is gone.
    pub(crate) fn dropped(&mut self, at: usize) {
        self.all[at].writer.dropped = true;
    }

    /// The node of one of its ends died.
    pub(crate) fn died(&mut self, at: usize, is_caller: bool) {
        let Stream { is_result, writer, reader, excused, .. } = &mut self.all[at];
        *excused = true;
        match *is_result == is_caller {
            true => drop(reader.over.get_or_insert(Over::Left)),
            false => writer.dropped = true,
        }
    }

    /// A stream that has a writer or a reader still.
    pub(crate) fn unfinished(&self) -> Option<String> {
        let goes_on = |stream: &Stream| {
            let Stream { writer, reader, .. } = stream;
            let writes = writer.is_there && writer.last.is_none() && !writer.dropped;
            writes || reader.is_there && reader.over.is_none()
        };
        let at = self.all.iter().position(goes_on)?;
        Some(format!("stream {at} is not over: {:?}", self.all[at]))
    }
}
