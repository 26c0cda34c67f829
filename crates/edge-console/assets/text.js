// Numbers, times and bytes as people read them.

/** 1234567 → 1,234,567 */
export function count(number) {
  return number === null || number === undefined ? "–" : Number(number).toLocaleString("en-US", { maximumFractionDigits: 0 });
}

/** 12.34 → 12.3, 1234.5 → 1,235 */
export function rate(number) {
  return Number(number).toLocaleString("en-US", { maximumFractionDigits: number < 100 ? 1 : 0 });
}

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** 1536 → 1.5 KiB */
export function size(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  let [value, unit] = [Number(bytes), 0];
  while (value >= 1024 && unit < SIZES.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${value.toLocaleString("en-US", { maximumFractionDigits: value < 10 && unit > 0 ? 1 : 0 })} ${SIZES[unit]}`;
}

/** Microseconds: 1500 → 1.5 ms */
export function micros(us) {
  if (!us) return "–";
  if (us < 1000) return `${us} µs`;
  const ms = us / 1000;
  return ms < 1000 ? `${ms.toLocaleString("en-US", { maximumFractionDigits: ms < 10 ? 1 : 0 })} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** Thousandths: 123 → 12 % */
export function permille(value) {
  return `${Math.round(value / 10)} %`;
}

/** Milliseconds since 1970 as a local date and time. */
export function moment(ms) {
  return ms ? new Date(ms).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" }) : "–";
}

/** How long, roughly. */
export function span(ms) {
  const seconds = Math.round(ms / 1000);
  if (seconds < 1) return `${Math.round(ms)} ms`;
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}

const DECODER = new TextDecoder("utf-8", { fatal: true });

/** Bytes as text, or null where they are no UTF-8 or hold control characters. */
export function plain(bytes) {
  try {
    const text = DECODER.decode(bytes);
    return /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/.test(text) ? null : text;
  } catch {
    return null;
  }
}

/** Bytes as a hex dump, sixteen a line. */
export function hex(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const row = [...bytes.subarray(at, at + 16)];
    const digits = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ").padEnd(47);
    const letters = row.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${digits}  ${letters}`);
  }
  return lines.join("\n");
}

/** A key for a table: text, or hex where it is none. */
export function keyText(bytes) {
  return plain(bytes) ?? [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Isolates letters of other writing directions, so that a key cannot rearrange the line it stands in. */
export function isolated(text) {
  return `\u2068${text}\u2069`;
}
