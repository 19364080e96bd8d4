import type { Config } from "@berth/local/config/schema"
import { type DestinationStream, type Logger as PinoLogger, pino } from "pino"
import { lineForPeople } from "./line-for-people.ts"
import { redact } from "./redact.ts"
import type { Secrets } from "./secrets.ts"

export type Logger = PinoLogger

export interface LoggerOptions {
  readonly level: Config["logLevel"]
  /** Writes for a person at a terminal, instead of JSON for programs. */
  readonly pretty: boolean
  /** Whether a person's terminal takes colours. */
  readonly color?: boolean
  readonly secrets: Secrets
  readonly destination: DestinationStream
}

/** A logger through which no secret passes: fields are redacted by name, the finished line by known values. */
export const createLogger = async (options: LoggerOptions): Promise<Logger> =>
  pino(
    {
      level: options.level,
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      // `redact` has made plain objects of errors already; pino's own serializer would read them again.
      serializers: { err: (error: unknown) => error },
      formatters: {
        level: (level) => ({ level }),
        log: (fields) => redact(fields) as Record<string, unknown>,
      },
      hooks: {
        // Arguments for the message text pass through no formatter, so they are redacted here.
        logMethod(args, method) {
          const [first, ...rest] = args as unknown[]
          const safe = [typeof first === "string" ? redact(first) : first, ...rest.map(redact)]
          method.apply(this, safe as Parameters<typeof method>)
        },
        // Bindings of a child logger pass through no formatter either, so the whole line is read again.
        streamWrite: (line) =>
          options.secrets.scrub(`${JSON.stringify(redact(JSON.parse(line)))}\n`),
      },
    },
    options.pretty ? forPeople(options) : options.destination,
  )

/** A level below the usual one shows every line. */
const isWhole = (level: LoggerOptions["level"]): boolean => level === "debug" || level === "trace"

const forPeople = ({ destination, color = false, level }: LoggerOptions): DestinationStream => ({
  write: (line) => {
    const text = lineForPeople(line, { color, isWhole: isWhole(level) })
    if (text !== "") destination.write(text)
  },
})

/** The destination of logs. Standard output belongs to a command's answer. */
export const standardError = (): DestinationStream => {
  const destination = pino.destination({ fd: 2, sync: true })
  // A reader that went away or a full disk must not end the server.
  destination.on("error", () => {})
  return destination
}
