//! The grid of the lock-step program: Laplace's equation, relaxed by colours.

/// Rows of a half.
pub(super) const ROWS: usize = 1024;
const COLUMNS: usize = 2048;
const OMEGA: f64 = 1.5;

/// Rows of the grid, with one row more above and below that are not relaxed.
pub(super) struct Half {
    cells: Vec<f64>,
    rows: usize,
    upper: bool,
}

impl Half {
    /// Returns the upper half, whose border above is warm, or the lower one.
    pub(super) fn new(upper: bool) -> Half {
        Half::of(ROWS, upper)
    }

    fn of(rows: usize, upper: bool) -> Half {
        let mut cells = vec![0.0; (rows + 2) * COLUMNS];
        // The cells are written here, so that no page faults while this is timed.
        cells.fill(if upper { 0.0 } else { -0.0 });
        if upper {
            cells[..COLUMNS].fill(1.0);
        }
        Half { cells, rows, upper }
    }

    /// Relaxes the points of the phase's colour.
    pub(super) fn relax(&mut self, phase: u64) {
        (0..self.rows).for_each(|row| self.relax_row(phase, row));
    }

    /// Relaxes the points of the phase's colour in one row.
    pub(super) fn relax_row(&mut self, phase: u64, row: usize) {
        let (above, rest) = self.cells[row * COLUMNS..(row + 3) * COLUMNS].split_at_mut(COLUMNS);
        let (own, below) = rest.split_at_mut(COLUMNS);
        for column in (1 + (row + phase as usize) % 2..COLUMNS - 1).step_by(2) {
            let around = above[column] + below[column] + own[column - 1] + own[column + 1];
            own[column] += OMEGA * (around / 4.0 - own[column]);
        }
    }

    /// Returns the row next to the other half.
    pub(super) fn edge(&self) -> &[f64] {
        let row = if self.upper { self.rows } else { 1 };
        &self.cells[row * COLUMNS..(row + 1) * COLUMNS]
    }

    /// Takes the other half's edge for a border.
    pub(super) fn border(&mut self, edge: &[f64]) {
        let row = if self.upper { self.rows + 1 } else { 0 };
        if let Some(border) = self.cells.get_mut(row * COLUMNS..(row + 1) * COLUMNS)
            && border.len() == edge.len()
        {
            border.copy_from_slice(edge);
        }
    }

    /// Returns the sum of the first rows, which are those of a half.
    pub(super) fn sum(&self) -> f64 {
        self.cells[COLUMNS..(ROWS + 1) * COLUMNS].iter().sum()
    }
}

/// Returns the sum of the upper half when one node relaxes the whole grid.
pub(super) fn alone(phases: u64) -> f64 {
    let mut whole = Half::of(2 * ROWS, true);
    (0..phases).for_each(|phase| whole.relax(phase));
    whole.sum()
}

#[cfg(test)]
mod tests {
    use super::{Half, alone};

    #[test]
    fn two_halves_come_to_what_one_grid_does() {
        const PHASES: u64 = 6;
        let (mut upper, mut lower) = (Half::new(true), Half::new(false));
        for phase in 0..PHASES {
            upper.relax(phase);
            lower.relax(phase);
            let edges = [upper.edge().to_vec(), lower.edge().to_vec()];
            upper.border(&edges[1]);
            lower.border(&edges[0]);
        }
        assert_eq!(upper.sum(), alone(PHASES));
        // Heat comes from above, a row in each phase.
        assert!(upper.sum() > 0.0 && lower.sum() == 0.0);
    }
}
