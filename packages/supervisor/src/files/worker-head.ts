export const HEAD_END = "\r\n\r\n"
export const MAX_HEAD_BYTES = 16 * 1024

/** The head of the worker's answer. */
export interface WorkerHead {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** The length of the content; undefined: it ends with the connection. */
  readonly length: number | undefined
}

/** Parses a head, keeping only the named headers. Returns undefined if it is not the head of an answer. */
export const parseHead = (text: string, names: readonly string[]): WorkerHead | undefined => {
  const [first = "", ...lines] = text.split("\r\n")
  const [, status] = /^HTTP\/1\.[01] ([2-5]\d\d) /.exec(first) ?? []
  const headers: Record<string, string> = {}
  for (const line of lines) {
    const [, name = "", value = ""] = /^([A-Za-z-]+): ([\x20-\x7e]*)$/.exec(line) ?? []
    if (names.includes(name.toLowerCase())) headers[name.toLowerCase()] = value
  }
  const said = headers["content-length"]
  const length = said === undefined ? undefined : Number(said)
  if (status === undefined || (length !== undefined && !Number.isSafeInteger(length)))
    return undefined
  return { status: Number(status), headers, length }
}
