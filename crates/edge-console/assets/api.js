// The JSON API, and who asks.
//
// Always: a password is kept in this page's memory alone; a token too, or in this tab's sessionStorage where that is wished for.
// Nothing is sent to anywhere but the node that sent the page. No cookie is set, so none can be misused.

const KEPT = "hive-console-token";
const DEADLINE_MS = 10_000;
const PATIENCE_MS = 5_000;

let authorization = null;
let onSignedOut = () => {};

/** A refusal of the node, or that it does not answer. */
export class Refusal extends Error {
  constructor(code, message, status, outcome) {
    super(message);
    Object.assign(this, { code, status, outcome });
  }
}

/** Calls this once the node no longer accepts the credential. */
export function whenSignedOut(handler) {
  onSignedOut = handler;
}

/** Asks as the user of a token. */
export function useToken(token, keep) {
  authorization = `Bearer ${token}`;
  if (keep) sessionStorage.setItem(KEPT, token);
}

/** Asks as a user with a password. */
export function usePassword(user, password) {
  const bytes = new TextEncoder().encode(`${user}:${password}`);
  authorization = `Basic ${toBase64(bytes)}`;
}

/** Uses what this tab kept. */
export function useKept() {
  const token = sessionStorage.getItem(KEPT);
  if (token) authorization = `Bearer ${token}`;
}

/** Forgets the credential. */
export function forget() {
  authorization = null;
  sessionStorage.removeItem(KEPT);
}

/** Whether a credential is at hand. */
export function isSignedIn() {
  return authorization !== null;
}

async function send(path, options, patienceMs) {
  const headers = { ...options.headers };
  if (authorization) headers.authorization = authorization;
  let answer;
  try {
    answer = await fetch(path, { ...options, headers, cache: "no-store", credentials: "same-origin", redirect: "error", signal: AbortSignal.timeout(patienceMs) });
  } catch {
    throw new Refusal("NoAnswer", "this node does not answer; check that it runs, and that this machine reaches it", 0, "unknown");
  }
  let body;
  try {
    body = await answer.json();
  } catch {
    throw new Refusal("NoAnswer", `the node's answer (${answer.status}) is no JSON; reload the page`, answer.status, "unknown");
  }
  if (answer.ok && body.ok !== false) return body;
  const error = body.error ?? {};
  if (answer.status === 401) onSignedOut(error.message ?? "sign in");
  throw new Refusal(error.code ?? `HTTP ${answer.status}`, error.message ?? "the node refused the request", answer.status, error.outcome);
}

/** Sends an action. */
export function act(action, fields = {}, deadlineMs = DEADLINE_MS) {
  const body = JSON.stringify({ action, deadline_ms: deadlineMs, ...fields });
  return send("/", { method: "POST", headers: { "content-type": "application/json" }, body }, deadlineMs + PATIENCE_MS);
}

/** The node's samples after a time. */
export function history(sinceMs) {
  return send(`/console/history?since=${Math.floor(sinceMs)}`, {}, PATIENCE_MS);
}

/** What is wrong, as the node knows it. */
export function alarmsOfNode() {
  return send("/alarms", {}, PATIENCE_MS);
}

/** The answer, or the refusal where the user may not ask or the world has no such thing: for pages of several parts. */
export async function attempt(promise) {
  try {
    return [await promise, null];
  } catch (error) {
    if (error instanceof Refusal && error.status !== 401) return [null, error];
    throw error;
  }
}

export function toBase64(bytes) {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

/** The bytes of a field that is text, or base64 beside it. */
export function bytesOf(row, name) {
  const coded = row[`${name}_base64`];
  if (coded !== undefined && coded !== null) return Uint8Array.from(atob(coded), (letter) => letter.charCodeAt(0));
  return row[name] === undefined || row[name] === null ? null : new TextEncoder().encode(row[name]);
}

/** The field of a request for bytes. */
export function field(name, bytes) {
  return { [`${name}_base64`]: toBase64(bytes) };
}
