import { setTimeout as pause } from "node:timers/promises"
import { sitAt } from "../sandboxes/pty.ts"

/** The acts of a person while a command runs that does not end by itself. */
export type Meanwhile = (person: Person) => Promise<void>

export interface Person {
  /** Types keys. */
  type(keys: string): void
  /** Resolves when the screen shows the pattern, after the line that was typed last. */
  see(pattern: RegExp): Promise<RegExpExecArray>
}

/** The answer to a line. */
export interface Answer {
  /** The text that the screen shows below the line. */
  readonly shown: string
  readonly status: number
}

/** A command that shows nothing new for this long is taken for stuck. A boot beside other tests takes less. */
const PATIENCE_MS = 90_000

/** A person at a terminal with bash in it, who types one line after another. */
export const sitAtBash = (env: NodeJS.ProcessEnv) => {
  const terminal = sitAt(["bash", "--noprofile", "--norc"], { ...env, TERM: "dumb", PS1: "\\#> " })
  let count = 1
  let typedAt = 0
  const see = async (pattern: RegExp): Promise<RegExpExecArray> => {
    for (;;) {
      const shown = terminal.shown()
      const found = pattern.exec(shown.slice(typedAt))
      if (found !== null) return found
      // Waits for more text than there was.
      await Promise.race([
        terminal.see(new RegExp(`^[^]{${shown.length + 1}}`)),
        outOfPatience(`${pattern} does not come after\n${shown.slice(typedAt)}`),
      ])
    }
  }
  const type = (keys: string) => terminal.type(keys)
  /**
   * The prompt of the shell has the number of the command that it waits for. It need not begin a line, since not everything
   * that is written ends one, nor be the last text: a server in the background goes on writing.
   */
  const prompted = () => see(new RegExp(`(?<!\\d)${count}> `))
  const enter = async (line: string, meanwhile?: Meanwhile): Promise<void> => {
    typedAt = terminal.shown().length
    type(`${line}\n`)
    await meanwhile?.({ type, see })
    count += 1
    await prompted()
  }
  /** Types a line as it stands, and waits until the shell has its prompt again. */
  const told = async (line: string, meanwhile?: Meanwhile): Promise<Answer> => {
    await enter(line, meanwhile)
    const [, ...shown] = plain(terminal.shown().slice(typedAt))
      .replace(/\n?\d+> $/, "")
      .split("\n")
    const before = terminal.shown().length
    // The word is written in two parts, so that the typed line is not taken for output.
    await enter(`echo "sta""tus=$?"`)
    const status = Number(/status=(\d+)/.exec(terminal.shown().slice(before))?.[1] ?? Number.NaN)
    return { shown: shown.join("\n"), status }
  }
  return {
    told,
    /** The same, for the exit status alone. */
    run: async (line: string, meanwhile?: Meanwhile): Promise<number> =>
      (await told(line, meanwhile)).status,
    /** The whole text that the screen has shown. */
    screen: () => plain(terminal.shown()),
    /** Closes the window, with the processes in it. */
    close: terminal.close,
  }
}

const outOfPatience = async (message: string): Promise<never> => {
  await pause(PATIENCE_MS, undefined, { ref: false })
  throw new Error(message)
}

const plain = (shown: string): string => shown.replaceAll("\r", "")
