import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import { onTestFinished } from "vitest"

/** A process of its own that runs a script and prints JSON, one value a line. */
export interface Child {
  readonly pid: number
  /** The next line of the child; throws if it ends without one. */
  next<Line>(): Promise<Line>
  /** The remaining lines, once the child has ended. */
  rest<Line>(): Promise<Line[]>
  tell(line: string): void
  kill(signal: NodeJS.Signals): Promise<void>
  /** Closes the child's standard input, at which every script ends by itself. */
  end(): Promise<void>
}

export interface ChildOptions {
  readonly args: readonly string[]
  /** A command that runs the command after it, such as `strace -o FILE`. */
  readonly wrapper?: readonly string[]
}

export const startChild = (script: string, { args, wrapper = [] }: ChildOptions): Child => {
  const node = [process.execPath, "--conditions=source", script]
  const [command = process.execPath, ...rest] = [...wrapper, ...node, ...args]
  const child = spawn(command, rest, { stdio: ["pipe", "pipe", "inherit"] })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const gone = ended(child)
  onTestFinished(async () => {
    child.kill("SIGKILL")
    await gone
  })
  return {
    pid: child.pid ?? Number.NaN,
    next: async () => {
      const { value, done } = await lines.next()
      if (done) throw new Error(`${script} ended without a word`)
      return JSON.parse(value)
    },
    rest: async () => {
      const rest = []
      for (let line = await lines.next(); !line.done; line = await lines.next()) {
        rest.push(JSON.parse(line.value))
      }
      // The output ends a moment before the process does.
      await gone
      return rest
    },
    tell: (line) => child.stdin.write(`${line}\n`),
    kill: async (signal) => {
      child.kill(signal)
      await gone
    },
    end: async () => {
      child.stdin.end()
      await gone
    },
  }
}

const ended = async (child: ChildProcess): Promise<void> => {
  await once(child, "close")
}
