#pragma once

namespace detent::coefficients {

// Polynomials in double, highest power first: least largest errors among Chebyshev interpolations.

inline constexpr double kLog2E = 0x1.71547652b82fep0;
inline constexpr double kLn2 = 0x1.62e42fefa39efp-1;
inline constexpr double kHalfRoot = 0x1.6a09e667f3bcdp-1;  // sqrt(1 / 2)

/// (exp(r) - 1 - r) / r^2 where |r| <= ln(2) / 2. Of exp(r) that leaves a relative error below 2^-37.
inline constexpr double kExp[] = {0.0000248595898345890544,
                                  0.000198992855758962823,
                                  0.00138888540356667097,
                                  0.00833329846980058942,
                                  0.0416666667190122595,
                                  0.166666667190289349,
                                  0.5};
/// (atanh(s) / s - 1) / s^2 over s^2, where s = (m - 1) / (m + 1) and 1 / 2 <= m^2 <= 2: 2^-43 of log(m).
inline constexpr double kLog[] = {0.0968159346608088171, 0.110956866904723155, 0.142858774841751759,
                                  0.199999993976095779, 0.333333333336883227};
/// erf(x) / x over x^2, where |x| <= 1 / 2: 2^-36.
inline constexpr double kErf[] = {-0.000769453427914230718, 0.00520041372433549267, -0.0268631430322493867,
                                  0.112837740131795381,     -0.37612638525650692,   1.12837916708240948};
/// exp(t^2) erfc(t) over (t - kErfcMiddle) / (t + kErfcMiddle), where 0 <= t <= kErfcMost: 2^-34.
inline constexpr double kErfc[] = {
    5.94512368671976691e-6, 0.0000151517825202333077, -0.0000338616853661224477, -0.000126732764716839748,
    0.000228517281285044,   0.000875242668530309048,  -0.00264242983376388361,   -0.00399359279559597295,
    0.0399225469696663754,  -0.125033060254108993,    0.251713192959187288,      -0.371736733778970272,
    0.210806364061610853};
inline constexpr double kErfcMiddle = 2.5;
inline constexpr double kErfcMost = 10.3;  // erfc(10.3) is below 2^-157

/// sin(r) / r over r^2, where |r| <= pi / 2: relative, 2^-35.4.
inline constexpr double kSine[] = {-2.38683466074373864e-8, 2.75239710675562156e-6, -0.000198408328226500926,
                                   0.00833333072054733004,  -0.166666666088257837,  0.999999999978850584};
/// cos(r) over r^2, where |r| <= pi / 4: relative, 2^-34.
inline constexpr double kCosine[] = {0.0000243726791172128433, -0.00138865291493801227, 0.0416666132337107156,
                                     -0.499999995715631251, 0.999999999943940399};
/// atan(t) / t over t^2, where |t| <= tan(pi / 8): relative, 2^-35.4.
inline constexpr double kAtan[] = {0.0471432726026201343, -0.0845979527110727603, 0.110411869520080613,
                                   -0.142816511132802887, 0.199998863775045166,   -0.333333321349683021,
                                   0.99999999997929867};
/// asin(s) / s over s^2, where |s| <= 1 / 2: relative, 2^-35.9.
inline constexpr double kAsin[] = {0.0349515349662773214, 0.00722385135903253189, 0.0247115324401133082,
                                   0.0300922115190955727, 0.0446620352830855438,  0.0749993820062688638,
                                   0.166666674216266936,  0.999999999984905186};
inline constexpr double kTanOfEighth = 0x1.a827999fcef32p-2;  // tan(pi / 8)

inline constexpr double kInversePi = 0x1.45f306dc9c883p-2;
inline constexpr double kPi = 0x1.921fb54442d18p1;
inline constexpr double kPiRest = 0x1.1a62633145c07p-53;  // pi - kPi
/// Below it angles are reduced by kPi and kPiRest.
inline constexpr double kHugeAngle = 0x1p32;

/// exp is cut to [-kExpMost, kExpMost], far outside of what float32 holds.
inline constexpr double kExpMost = 700;
/// 1.5 * 2^52: what is added to it is rounded to an integer, which the low bits of the sum hold.
inline constexpr double kRounder = 0x1.8p52;
/// The same, with the bias of exponents in the last places.
inline constexpr double kBiasedRounder = kRounder + 1023;

// The same in float32, of which softmax and gelu are made.

inline constexpr float kFloatLog2E = 0x1.715476p0F;
inline constexpr float kFloatLn2High =
    0.693145751953125F;  // 16 bits, so that products with exponents are exact
inline constexpr float kFloatLn2Low = 1.42860682030941723212e-6F;
inline constexpr float kFloatExp[] = {0.00139261835877134945F, 0.00836317905272257737F,
                                      0.0416665546172045742F, 0.166665769896987757F, 0.5F};
inline constexpr float kFloatLeastExp = -87.3365F;  // below it the result is 0: it would be below 2^-126
inline constexpr float kFloatRounder = 0x1.8p23F;
/// (t + kFloatTailMiddle) exp(t^2 / 2) P(N(0, 1) > t) over t / (t + kFloatTailMiddle): 2^-25.7.
inline constexpr float kFloatTail[] = {-0.0795851481334F, 0.279034003032F,  -0.312524462849F, 0.137619382633F,
                                       -0.149810207295F,  0.0561724874038F, 0.291810908539F,  0.169617261092F,
                                       -1.24339297484F,   1.25000001567F};
inline constexpr float kFloatTailMiddle = 2.5F;
inline constexpr float kFloatMostTail = 13.2F;  // beyond it the tail is 0: it would be below 2^-126

}  // namespace detent::coefficients
