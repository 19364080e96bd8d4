import { refuse } from "./refuse.ts"

/** The prefix of an extended attribute's name in tar's extended header. */
export const XATTR = "SCHILY.xattr."

const SPACE = 32
const EQUALS = 61
const NEWLINE = 10

/** Parses the records of an extended header: `"<length> <key>=<value>\n"`, where the value may be any bytes. */
export const parsePax = (bytes: Buffer): Map<string, Buffer> => {
  const records = new Map<string, Buffer>()
  for (let at = 0; at < bytes.length; ) {
    const space = bytes.indexOf(SPACE, at)
    const digits = bytes.toString("latin1", at, space)
    const end = at + Number(digits)
    const equals = bytes.indexOf(EQUALS, space)
    const wellFormed =
      space > at &&
      /^[1-9]\d{0,7}$/.test(digits) &&
      equals > space + 1 &&
      equals < end &&
      end <= bytes.length &&
      bytes[end - 1] === NEWLINE
    if (!wellFormed) refuse("an extended header is damaged", "")
    const key = bytes.toString("latin1", space + 1, equals)
    if (records.has(key)) refuse(`an extended header says ${key} twice`, "")
    records.set(key, bytes.subarray(equals + 1, end - 1))
    at = end
  }
  return records
}

export const formatPax = (records: Iterable<readonly [string, Buffer]>): Buffer =>
  Buffer.concat([...records].flatMap(([key, value]) => record(key, value)))

const record = (key: string, value: Buffer): Buffer[] => {
  const body = Buffer.concat([Buffer.from(` ${key}=`, "latin1"), value, Buffer.from([NEWLINE])])
  // The length counts its own digits.
  let length = body.length + String(body.length).length
  length = body.length + String(length).length
  return [Buffer.from(String(length)), body]
}
