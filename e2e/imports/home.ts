import type { Rules } from "./rules.ts"

/** The place of a file in the project. */
export interface Home {
  /** `packages/server`, or `e2e`: relative imports stay inside. */
  readonly folder: string
  /** `server`; undefined outside of the packages. */
  readonly packageName: string | undefined
  /** Path below `src`; undefined for files beside it, such as the settings of a tool. */
  readonly pathInSrc: string | undefined
  /** Whether the file is a test, or is used by tests alone: it may import every place of its own package. */
  readonly forTests: boolean
}

export function homeOf(file: string, { outside }: Rules): Home {
  const [top = "", name = "", third, ...rest] = file.split("/")
  if (outside.includes(top))
    return { folder: top, packageName: undefined, pathInSrc: undefined, forTests: true }
  const pathInSrc = third === "src" ? rest.join("/") : undefined
  return {
    folder: `packages/${name}`,
    packageName: name,
    pathInSrc,
    forTests: pathInSrc === undefined || isForTests(file),
  }
}

export const isTest = (file: string) => /\.test\.[^./]+$/.test(file)

/** Tells tests, and files in `testing/`, such as a suite that several tests share. */
export const isForTests = (file: string) => isTest(file) || file.includes("/testing/")
