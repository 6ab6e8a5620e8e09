//! One binary so that it links once.
