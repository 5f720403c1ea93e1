// Small numerics that the browser lacks, as NumPy and SciPy have them.

/** Doubles from base64, little-endian as every browser stores them. */
function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Float64Array(bytes.buffer);
}

/** Round halves to the even neighbour, as NumPy does. */
function rounded(value) {
  const below = Math.floor(value);
  const rest = value - below;
  if (rest !== 0.5) return rest < 0.5 ? below : below + 1;
  return below % 2 === 0 ? below : below + 1;
}

/** Quantile of rising values, interpolated linearly between two. */
function quantile(rising, fraction) {
  const place = fraction * (rising.length - 1);
  const rank = Math.floor(place);
  const next = Math.min(rank + 1, rising.length - 1);
  return rising[rank] + (place - rank) * (rising[next] - rising[rank]);
}

function mean(values) {
  let sum = 0;
  for (const value of values) sum += value;
  return sum / values.length;
}

/** Distribution function of the standard normal: Hart's approximation, as West (2005) gives it. */
function normalBelow(z) {
  const size = Math.abs(z);
  if (size > 37) return z > 0 ? 1 : 0;
  const bell = Math.exp(-0.5 * size * size);
  let tail;
  if (size < 7.07106781186547) {
    const above = polynomial(size, [3.52624965998911e-2, 0.700383064443688, 6.37396220353165,
      33.912866078383, 112.079291497871, 221.213596169931, 220.206867912376]);
    const below = polynomial(size, [8.83883476483184e-2, 1.75566716318264, 16.064177579207,
      86.7807322029461, 296.564248779674, 637.333633378831, 793.826512519948, 440.413735824752]);
    tail = (bell * above) / below;
  } else {
    const fraction = size + 1 / (size + 2 / (size + 3 / (size + 4 / (size + 0.65))));
    tail = bell / fraction / 2.506628274631;
  }
  return z > 0 ? 1 - tail : tail;
}

function polynomial(x, coefficients) {
  return coefficients.reduce((sum, coefficient) => sum * x + coefficient, 0);
}
