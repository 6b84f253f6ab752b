//! A window that is moved over images: its size, its steps, and the border around the image.

use std::ops::Range;

/// Height and width of a window, how far it moves, and how many zeros (for the largest value:
/// nothing) lie around the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Height and width.
    pub size: [usize; 2],
    /// Steps down and right, at least 1.
    pub stride: [usize; 2],
    /// Border above, left, below and right.
    pub padding: [usize; 4],
}

impl Window {
    /// A square window with equal steps and an equal border on all sides.
    #[must_use]
    pub fn square(size: usize, stride: usize, padding: usize) -> Self {
        Self {
            size: [size; 2],
            stride: [stride; 2],
            padding: [padding; 4],
        }
    }

    /// Height and width of what the window makes of an image; `None` if it does not fit in.
    #[must_use]
    pub fn output(&self, [height, width]: [usize; 2]) -> Option<[usize; 2]> {
        let [above, left, below, right] = self.padding;
        let along = |length: usize, size: usize, stride: usize| {
            let moves = length.checked_sub(size)?.checked_div(stride)?;
            (size > 0).then_some(moves + 1)
        };
        Some([
            along(height + above + below, self.size[0], self.stride[0])?,
            along(width + left + right, self.size[1], self.stride[1])?,
        ])
    }
}

/// A window on images [count, height, width, channels].
#[derive(Clone, Copy, Debug)]
pub(super) struct Sweep {
    window: Window,
    count: usize,
    image: [usize; 2],
    pub(super) channels: usize,
    pub(super) output: [usize; 2],
}

impl Sweep {
    /// # Panics
    /// If these are no images, or the window does not fit in.
    pub(super) fn new(window: Window, dimensions: &[usize]) -> Self {
        let &[count, height, width, channels] = dimensions else {
            panic!("{dimensions:?} are no images [count, height, width, channels]");
        };
        let image = [height, width];
        let Some(output) = window.output(image) else {
            panic!("{window:?} does not fit into {height} x {width}");
        };
        Self {
            window,
            count,
            image,
            channels,
            output,
        }
    }

    /// Number of positions, over all images.
    pub(super) fn positions(&self) -> usize {
        self.count * self.positions_each()
    }

    /// Number of positions on an image.
    pub(super) fn positions_each(&self) -> usize {
        self.output[0] * self.output[1]
    }

    /// Number of places of the window.
    pub(super) fn places(&self) -> usize {
        self.window.size[0] * self.window.size[1]
    }

    /// Values of an image.
    pub(super) fn input_len(&self) -> usize {
        self.image[0] * self.image[1] * self.channels
    }

    /// Values that an image becomes if it keeps its channels.
    pub(super) fn output_len(&self) -> usize {
        self.positions_each() * self.channels
    }

    /// Calls `visit` for every position of the window, row-major over the images.
    pub(super) fn each(&self, visit: impl FnMut(usize, Position)) {
        self.among(0..self.positions(), visit);
    }

    /// Calls `visit` for some of the positions that [`Self::each`] visits, with their number.
    pub(super) fn among(&self, numbers: Range<usize>, mut visit: impl FnMut(usize, Position)) {
        let [rows, columns] = self.output;
        let [down, across] = self.window.stride;
        let (line, mut column) = (numbers.start / columns, numbers.start % columns);
        let (mut image, mut row) = (line / rows, line % rows);
        for number in numbers {
            let (top, left) = (row * down, column * across);
            visit(number, Position { image, top, left });
            column += 1;
            if column == columns {
                (column, row) = (0, row + 1);
            }
            if row == rows {
                (row, image) = (0, image + 1);
            }
        }
    }

    /// Values that lie side by side in a row of the window, and in a row of an image.
    pub(super) fn row_lengths(&self) -> [usize; 2] {
        [self.window.size[1], self.image[1]].map(|pixels| pixels * self.channels)
    }

    /// The first channel of the first pixel under the window, if nothing of it lies on the border.
    #[inline]
    pub(super) fn inside(&self, at: Position) -> Option<usize> {
        let [height, width] = self.image;
        let [above, before, ..] = self.window.padding;
        let [rows, columns] = self.window.size;
        let (y, x) = (at.top.checked_sub(above)?, at.left.checked_sub(before)?);
        let fits = y + rows <= height && x + columns <= width;
        fits.then_some(((at.image * height + y) * width + x) * self.channels)
    }

    /// Calls `visit` for the window's places at a position in runs of neighbours, row-major.
    #[inline]
    pub(super) fn runs(&self, at: Position, mut visit: impl FnMut(Run)) {
        let [height, width] = self.image;
        let [above, before, ..] = self.window.padding;
        let [rows, columns] = self.window.size;
        // The window's columns within the image.
        let first = before.saturating_sub(at.left).min(columns);
        let end = (width + before)
            .saturating_sub(at.left)
            .clamp(first, columns);
        for row in 0..rows {
            let place = row * columns;
            let mut run = |columns: Range<usize>, pixel| {
                if !columns.is_empty() {
                    visit(Run {
                        place: place + columns.start,
                        length: columns.len(),
                        pixel,
                    });
                }
            };
            match (at.top + row).checked_sub(above).filter(|y| *y < height) {
                Some(y) if first < end => {
                    let x = at.left + first - before;
                    let pixel = ((at.image * height + y) * width + x) * self.channels;
                    run(0..first, None);
                    run(first..end, Some(pixel));
                    run(end..columns, None);
                }
                Some(_) | None => run(0..columns, None),
            }
        }
    }

    /// Calls `visit` for every place of the window at a position, row-major: its number, and the
    /// first channel of the pixel that is there, or `None` on the border.
    #[inline]
    pub(super) fn pixels(&self, at: Position, mut visit: impl FnMut(usize, Option<usize>)) {
        let [height, width] = self.image;
        let [above, before, ..] = self.window.padding;
        let mut number = 0;
        for row in at.top..at.top + self.window.size[0] {
            for column in at.left..at.left + self.window.size[1] {
                let inside = row.checked_sub(above).zip(column.checked_sub(before));
                let pixel = inside
                    .filter(|(y, x)| *y < height && *x < width)
                    .map(|(y, x)| ((at.image * height + y) * width + x) * self.channels);
                visit(number, pixel);
                number += 1;
            }
        }
    }
}

/// Pixels side by side in one row of a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Number of the first place in the window.
    pub(super) place: usize,
    /// How many.
    pub(super) length: usize,
    /// The first channel of the first pixel; `None` on the border.
    pub(super) pixel: Option<usize>,
}

/// Where a window is: image, and its corner within the bordered image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    image: usize,
    top: usize,
    left: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_the_pixels_in_order() {
        let mut borders = 0;
        for (size, stride, padding) in [
            ([2, 3], [1, 2], [0, 0, 0, 0]),
            ([3, 2], [2, 1], [1, 2, 0, 3]),
            ([4, 6], [1, 1], [2, 5, 3, 1]),
        ] {
            let window = Window {
                size,
                stride,
                padding,
            };
            let sweep = Sweep::new(window, &[2, 4, 5, 3]);
            sweep.each(|_, at| {
                let (mut single, mut together) = (Vec::new(), Vec::new());
                sweep.pixels(at, |place, pixel| single.push((place, pixel)));
                sweep.runs(at, |run| {
                    let pixels = (0..run.length)
                        .map(|i| (run.place + i, run.pixel.map(|first| first + i * 3)));
                    together.extend(pixels);
                });
                assert_eq!(together, single, "{window:?} at {at:?}");
                borders += single.iter().filter(|(_, pixel)| pixel.is_none()).count();
            });
        }
        assert!(borders > 0, "some windows lie on the border");
    }
}
