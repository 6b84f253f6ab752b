//! The tensors of a `cnn` and the shapes between its layers, worked out before any row is seen.

use resilin_core::layout::{Entry, Role};

use super::layer::{Layer, Norm};
use crate::autograd::ops::Window;
use crate::model::ModelError;

/// Height, width and channels.
pub(super) type Extent = [usize; 3];

/// The layers with what each gets, and all tensors.
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    pub(super) entries: Vec<Entry>,
    /// Values of a row that the last dense layer gets.
    pub(super) flat: usize,
}

/// One layer.
pub(super) struct Step {
    pub(super) layer: Layer,
    /// `layer3` for the fourth layer.
    pub(super) name: String,
    /// What it gets.
    pub(super) input: Extent,
}

/// How the input of a residual block goes around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Skip {
    /// As it is.
    Same,
    /// Through a 1 x 1 convolution, since the shapes differ.
    Convolved,
}

impl Skip {
    pub(super) fn of(stride: usize, inputs: usize, outputs: usize) -> Self {
        if stride == 1 && inputs == outputs {
            Self::Same
        } else {
            Self::Convolved
        }
    }
}

impl Plan {
    /// Layers over images, and the dense layer `output` at the end.
    ///
    /// # Errors
    /// A window that does not fit, or a layer for images behind a dense one.
    pub(super) fn new(image: Extent, layers: &[Layer], outputs: usize) -> Result<Self, ModelError> {
        let mut tensors = Tensors::default();
        let mut extent = image;
        let mut is_flat = false;
        let mut steps = Vec::new();
        for (number, layer) in layers.iter().enumerate() {
            let name = format!("layer{number}");
            let (input, needs_image) = (extent, needs_image(layer));
            if is_flat && needs_image {
                return Err(ModelError(format!(
                    "layer {} follows a dense one and needs an image; put it before",
                    number + 1
                )));
            }
            is_flat = is_flat || matches!(layer, Layer::Dense { .. });
            extent = tensors.layer(layer, &name, input).ok_or_else(|| {
                ModelError(format!(
                    "layer {} does not fit into {} x {}; make its window smaller, or pad",
                    number + 1,
                    input[0],
                    input[1]
                ))
            })?;
            steps.push(Step {
                layer: *layer,
                name,
                input,
            });
        }
        let flat = extent.iter().product();
        tensors.dense("output", flat, outputs);
        Ok(Self {
            steps,
            entries: tensors.0,
            flat,
        })
    }
}

fn needs_image(layer: &Layer) -> bool {
    match layer {
        Layer::Convolution { .. }
        | Layer::Residual { .. }
        | Layer::MaxPool { .. }
        | Layer::AveragePool { .. } => true,
        Layer::Dense { .. } | Layer::Dropout { .. } => false,
    }
}

#[derive(Default)]
struct Tensors(Vec<Entry>);

impl Tensors {
    /// Adds a layer's tensors; returns what the layer gives, `None` if its window does not fit.
    fn layer(&mut self, layer: &Layer, name: &str, input: Extent) -> Option<Extent> {
        let [height, width, channels] = input;
        let image = |window: Window, channels| {
            let [height, width] = window.output([height, width])?;
            Some([height, width, channels])
        };
        match *layer {
            Layer::Convolution {
                channels: outputs,
                size,
                stride,
                padding,
                norm,
            } => {
                self.convolution(name, size, [channels, outputs]);
                match norm {
                    Norm::Bias => self.add(name, "bias", &[outputs], Role::Trained),
                    Norm::Batch => self.norm(name, outputs),
                }
                image(Window::square(size, stride, padding), outputs)
            }
            Layer::Residual {
                channels: outputs,
                stride,
            } => {
                self.convolution(&format!("{name}.first"), 3, [channels, outputs]);
                self.norm(&format!("{name}.first"), outputs);
                self.convolution(&format!("{name}.second"), 3, [outputs, outputs]);
                self.norm(&format!("{name}.second"), outputs);
                match Skip::of(stride, channels, outputs) {
                    Skip::Same => {}
                    Skip::Convolved => {
                        self.convolution(&format!("{name}.skip"), 1, [channels, outputs]);
                        self.norm(&format!("{name}.skip"), outputs);
                    }
                }
                image(Window::square(3, stride, 1), outputs)
            }
            Layer::MaxPool { size, stride } | Layer::AveragePool { size, stride } => {
                image(Window::square(size, stride, 0), channels)
            }
            Layer::Dense { units } => {
                self.dense(name, height * width * channels, units);
                Some([1, 1, units])
            }
            Layer::Dropout { .. } => Some(input),
        }
    }

    fn convolution(&mut self, name: &str, size: usize, [inputs, outputs]: [usize; 2]) {
        let shape = [size, size, inputs, outputs];
        self.add(name, "weight", &shape, Role::Trained);
    }

    fn norm(&mut self, name: &str, channels: usize) {
        self.add(name, "scale", &[channels], Role::Trained);
        self.add(name, "shift", &[channels], Role::Trained);
        self.add(name, "mean", &[channels], Role::Buffer);
        self.add(name, "variance", &[channels], Role::Buffer);
    }

    fn dense(&mut self, name: &str, inputs: usize, outputs: usize) {
        self.add(name, "weight", &[inputs, outputs], Role::Trained);
        self.add(name, "bias", &[outputs], Role::Trained);
    }

    fn add(&mut self, layer: &str, tensor: &str, shape: &[usize], role: Role) {
        self.0.push(Entry {
            name: format!("{layer}.{tensor}"),
            shape: shape.to_vec(),
            role,
        });
    }
}
