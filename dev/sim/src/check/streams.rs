//! The record of each stream: the items that its writer sent, the items that its reader took, and how each side ended.

use upbeat_core::channel::stream::BatchTail;

use super::{Violation, violated};

/// The most batches that a writer may have sent before its reader has read the one in front to its end: of a
/// result and of an argument.
const AHEAD: [u64; 2] = [1, 2];

/// The items of one message, and the end behind them. Items are numbered from 0 in each stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) from: u64,
    pub(crate) items: u64,
    pub(crate) tail: BatchTail,
}

/// How a stream ended for its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// The last item arrived, or the writer said that there are no more.
    Ended(BatchTail),
    /// No more items will come, and the writer has not said so.
    Cut,
    /// The reader is gone.
    Left,
}

/// The record of all streams.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams {
    all: Vec<Stream>,
}

#[derive(Clone, Debug)]
struct Stream {
    is_result: bool,
    /// Whether one of the two nodes is the liar, so that any items are allowed.
    lies: bool,
    writer: Writer,
    reader: Reader,
    /// Whether the stream may end before its last item.
    excused: bool,
}

#[derive(Clone, Debug, Default)]
struct Writer {
    is_there: bool,
    items: u64,
    batches: u64,
    last: Option<BatchTail>,
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
    /// A stream stands in a result, or in arguments. Returns its index.
    pub(crate) fn open(&mut self, is_result: bool, lies: bool) -> usize {
        let (writer, reader) = (Writer::default(), Reader::default());
        self.all.push(Stream { is_result, lies, writer, reader, excused: false });
        self.all.len() - 1
    }

    /// Returns whether one of the two nodes is the liar.
    pub(crate) fn lies(&self, at: usize) -> bool {
        self.all[at].lies
    }

    /// The writer of the stream begins.
    pub(crate) fn writes(&mut self, at: usize) {
        self.all[at].writer.is_there = true;
    }

    /// The reader of the stream begins.
    pub(crate) fn reads(&mut self, at: usize) {
        self.all[at].reader.is_there = true;
    }

    /// The stream may end before its last item.
    pub(crate) fn excuse(&mut self, at: usize) {
        self.all[at].excused = true;
    }

    /// The writer sends a batch.
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
        writer.last = (batch.tail != BatchTail::More).then_some(batch.tail);
        let ahead = writer.batches - reader.batches;
        if ahead > AHEAD[usize::from(!*is_result)] && reader.over.is_none() {
            return violated(format!("stream {at} is {ahead} batches ahead of its reader"));
        }
        Ok(())
    }

    /// The reader takes a batch.
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

    /// The stream ends for its reader. Only the first report counts.
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

    /// The writer is dropped.
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

    /// Returns a description of a stream that still has a writer or a reader.
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
