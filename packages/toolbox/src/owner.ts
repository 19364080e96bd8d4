import { processStart } from "@berth/local/lock-holder"

/** A lasting name of this process, for use in file names: a pid is used again, but not with the same start. */
export const ownName = (): string => nameOf(process.pid)

/** Whether the process of this name still runs. */
export const isAlive = (name: string): boolean => nameOf(Number(name.split("-", 1)[0])) === name

const nameOf = (pid: number): string => `${pid}-${(processStart(pid) ?? "gone").replace("/", "-")}`
