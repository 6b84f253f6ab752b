//! The layers of a `cnn`, as a job file writes them.

use std::str::{FromStr, SplitWhitespace};

/// One layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Layer {
    /// `conv CHANNELS SIZE [stride S] [pad P] [norm]`: a convolution and the activation; with
    /// `norm`, batch normalization between them in place of a bias.
    Convolution {
        /// Channels of the output.
        channels: usize,
        /// Height and width of the window.
        size: usize,
        /// Steps of the window.
        stride: usize,
        /// Zeros around the image.
        padding: usize,
        /// Whether it is normalized.
        norm: Norm,
    },
    /// `residual CHANNELS [stride S]`: two 3 x 3 convolutions with batch normalization, added to
    /// their input (He et al. 2016); where shapes differ, the input goes through a 1 x 1
    /// convolution.
    Residual {
        /// Channels of the output.
        channels: usize,
        /// Steps of the first window.
        stride: usize,
    },
    /// `pool SIZE [stride S]`: the largest value; the stride is the size if it is not given.
    MaxPool {
        /// Height and width of the window.
        size: usize,
        /// Steps of the window.
        stride: usize,
    },
    /// `average SIZE [stride S]`: the mean.
    AveragePool {
        /// Height and width of the window.
        size: usize,
        /// Steps of the window.
        stride: usize,
    },
    /// `dense UNITS`: a dense layer over all values, and the activation.
    Dense {
        /// Values of the output.
        units: usize,
    },
    /// `dropout RATE`.
    Dropout {
        /// Share of the values that is dropped in training.
        rate: f32,
    },
}

/// Whether a convolution is normalized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// It has a bias.
    Bias,
    /// By its statistics over the microbatch.
    Batch,
}

/// The largest size, stride or width of a layer.
const MOST: usize = 1 << 20;

impl FromStr for Layer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = Words {
            text,
            rest: text.split_whitespace(),
        };
        let kind = words.rest.next().unwrap_or_default();
        let layer = match kind {
            "conv" => {
                let (channels, size) = (words.number("channels")?, words.number("a size")?);
                let options = words.options(&["stride", "pad", "norm"])?;
                Self::Convolution {
                    channels,
                    size,
                    stride: options.stride.unwrap_or(1),
                    padding: options.padding,
                    norm: options.norm,
                }
            }
            "residual" => {
                let channels = words.number("channels")?;
                let stride = words.options(&["stride"])?.stride.unwrap_or(1);
                Self::Residual { channels, stride }
            }
            "pool" | "average" => {
                let size = words.number("a size")?;
                let stride = words.options(&["stride"])?.stride.unwrap_or(size);
                if kind == "pool" {
                    Self::MaxPool { size, stride }
                } else {
                    Self::AveragePool { size, stride }
                }
            }
            "dense" => {
                let units = words.number("a number of units")?;
                words.options(&[])?;
                Self::Dense { units }
            }
            "dropout" => {
                let rate = words.rest.next().and_then(|word| word.parse().ok());
                let rate = rate.filter(|rate| (0.0..1.0).contains(rate));
                let rate = rate.ok_or_else(|| words.refuse("needs a rate from 0 to below 1"))?;
                words.options(&[])?;
                Self::Dropout { rate }
            }
            _ => {
                let known = "conv, residual, pool, average, dense or dropout";
                return Err(words.refuse(&format!("begins with none of {known}")));
            }
        };
        Ok(layer)
    }
}

/// The words of a layer.
struct Words<'a> {
    text: &'a str,
    rest: SplitWhitespace<'a>,
}

struct Options {
    stride: Option<usize>,
    padding: usize,
    norm: Norm,
}

impl Words<'_> {
    fn refuse(&self, message: &str) -> String {
        format!("layer \"{}\" {message}", self.text)
    }

    fn number(&mut self, what: &str) -> Result<usize, String> {
        let word = self.rest.next();
        let number = word.and_then(|word| word.parse().ok());
        number
            .filter(|number| (1..=MOST).contains(number))
            .ok_or_else(|| self.refuse(&format!("needs {what}, 1 to {MOST}")))
    }

    /// What follows the numbers; each option at most once.
    fn options(mut self, known: &[&str]) -> Result<Options, String> {
        let mut options = Options {
            stride: None,
            padding: 0,
            norm: Norm::Bias,
        };
        let mut seen = Vec::new();
        while let Some(word) = self.rest.next() {
            if !known.contains(&word) || seen.contains(&word) {
                return Err(self.refuse(&format!("has \"{word}\", which does not belong there")));
            }
            seen.push(word);
            match word {
                "stride" => options.stride = Some(self.number("a number after stride")?),
                "pad" => options.padding = self.number("a number after pad")?,
                _ => options.norm = Norm::Batch,
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        text.parse::<Layer>().expect_err(text)
    }

    #[test]
    fn layers_are_read_with_their_options() {
        let conv = |stride, padding, norm| Layer::Convolution {
            channels: 8,
            size: 3,
            stride,
            padding,
            norm,
        };
        assert_eq!("conv 8 3".parse(), Ok(conv(1, 0, Norm::Bias)));
        let all = "conv 8 3 norm pad 1 stride 2";
        assert_eq!(all.parse(), Ok(conv(2, 1, Norm::Batch)));
        assert_eq!("pool 2".parse(), Ok(Layer::MaxPool { size: 2, stride: 2 }));
        let average = Layer::AveragePool { size: 3, stride: 1 };
        assert_eq!("average 3 stride 1".parse(), Ok(average));
        let residual = Layer::Residual {
            channels: 16,
            stride: 2,
        };
        assert_eq!("residual 16 stride 2".parse(), Ok(residual));
        assert_eq!("dense 10".parse(), Ok(Layer::Dense { units: 10 }));
        assert_eq!("dropout 0.5".parse(), Ok(Layer::Dropout { rate: 0.5 }));
    }

    #[test]
    fn what_is_no_layer_is_refused_with_its_text() {
        assert!(error("").contains("begins with none of conv"));
        assert!(error("konv 8 3").starts_with("layer \"konv 8 3\""));
        assert!(error("conv 8").contains("needs a size, 1 to 1048576"));
        assert!(error("conv 0 3").contains("needs channels"));
        assert!(error("conv 8 3 stride").contains("needs a number after stride"));
        assert!(error("conv 8 3 pad 1 pad 1").contains("has \"pad\""));
        assert!(error("dense 8 norm").contains("has \"norm\""));
        assert!(error("dropout 1").contains("needs a rate"));
    }
}
