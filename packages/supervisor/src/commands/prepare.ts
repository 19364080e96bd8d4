import type { CommandStart } from "@berth/protocol/commands"
import type { FeatureParts } from "../features/parts.ts"
import { workingDirectory } from "../features/working-directory.ts"
import type { Launch } from "../processes/launch.ts"

/** What a start means in this sandbox. */
export const prepare = (start: CommandStart, parts: FeatureParts): Launch => ({
  command: start.command as [string, ...string[]],
  cwd: workingDirectory(start.cwd, parts),
  env: {
    ...(start.user === "root" ? rootEnvironment(parts) : parts.environment),
    ...start.env,
  },
  user: start.user === "root" ? undefined : parts.user,
})

/** Root looks for no program where the user can put one. */
const rootEnvironment = ({ environment, places }: FeatureParts): Record<string, string> => ({
  ...environment,
  PATH: (environment.PATH ?? "")
    .split(":")
    .filter(
      (directory) => directory.startsWith("/") && !`${directory}/`.startsWith(`${places.home}/`),
    )
    .join(":"),
  HOME: "/root",
  USER: "root",
  LOGNAME: "root",
})
