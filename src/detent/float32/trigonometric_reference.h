#pragma once

namespace detent {

// The arithmetic of trigonometric-inl.h for one number that float32 holds. The first three are the kernels
// too where |x| >= kHugeAngle.
double sine_reference(double x);
double cosine_reference(double x);
double tangent_reference(double x);
double arc_sine_reference(double x);
double arc_cosine_reference(double x);
double arc_tangent_reference(double x);

}  // namespace detent
