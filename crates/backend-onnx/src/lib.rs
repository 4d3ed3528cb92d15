//! backend-onnx
