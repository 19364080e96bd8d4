/** The fields of a log line in JSON. */
type Fields = Readonly<Record<string, unknown>>

/** Fields that the line already shows in another form, or that are of no use to a person at a terminal. */
const LEFT_OUT = new Set([
  "level",
  "time",
  "pid",
  "msg",
  "op",
  "outcome",
  "durationMs",
  "requestId",
  "err",
])

const DIM = 2
const COLORS: Readonly<Record<string, number>> = { warn: 33, error: 31, fatal: 31 }

/**
 * Renders a line of JSON as one line of text, with the stack of a defect below it; empty if a person has no use for it.
 */
export const lineForPeople = (
  json: string,
  { color, isWhole = true }: { readonly color: boolean; readonly isWhole?: boolean },
): string => {
  const paint = (code: number | undefined, text: string) =>
    color && code !== undefined ? `\u001b[${code}m${text}\u001b[0m` : text
  const fields = JSON.parse(json) as Fields
  if (!isWhole && isLook(fields)) return ""
  const { level, time, msg, durationMs, err } = fields
  const tone = COLORS[String(level)]
  const parts = [
    paint(DIM, clock(String(time))),
    paint(tone, tone === undefined ? said(msg) : `${level}: ${said(msg)}`),
    ...Object.entries(fields)
      .filter(([name, value]) => !LEFT_OUT.has(name) && value !== undefined && value !== null)
      .map(([name, value]) => `${paint(DIM, `${name}=`)}${shown(value)}`),
    ...(typeof durationMs === "number" ? [paint(DIM, `${durationMs} ms`)] : []),
  ]
  return `${parts.join(" ")}${reason(err)}\n`
}

/** Whether a line is about a request that reads: every command sends a few of them, whose answers it shows itself. */
const isLook = ({ level, op, method }: Fields): boolean =>
  level === "info" && op === "request.answer" && (method === "GET" || method === "HEAD")

/** The local time of day. */
const clock = (time: string): string => new Date(time).toLocaleTimeString("en-GB")

/** The message without " ok": `server.start ok` says no more than `server.start`. */
const said = (message: unknown): string => printable(String(message ?? "")).replace(/ ok$/, "")

const shown = (value: unknown): string => {
  const text = typeof value === "string" ? value : JSON.stringify(value)
  return printable(/^[^\s"]+$/.test(text) ? text : JSON.stringify(text))
}

const reason = (err: unknown): string => {
  if (typeof err !== "object" || err === null) return ""
  const { message, stack, code } = err as Fields
  const below =
    code === undefined && stack !== undefined ? `\n${printable(String(stack), "\n")}` : ""
  return `: ${printable(String(message ?? ""))}${below}`
}

/**
 * Escapes characters that move the cursor, change the direction of writing or are invisible: they may come from a
 * sandbox.
 */
const printable = (text: string, kept = ""): string =>
  text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (character) =>
    character === kept ? character : `\\u{${character.codePointAt(0)?.toString(16)}}`,
  )
