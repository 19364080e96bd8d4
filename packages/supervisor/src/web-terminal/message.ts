/** Limit of columns and rows. No screen has more; the kernel takes up to 65535. */
const MAX_CELLS = 1000

export interface Size {
  readonly cols: number
  readonly rows: number
}

/** Parses a text frame of the page, the new size of its terminal; undefined if it is invalid. */
export const parseSize = (text: string): Size | undefined => {
  const match = /^(\d{1,4})x(\d{1,4})$/.exec(text)
  const [cols, rows] = [Number(match?.[1]), Number(match?.[2])]
  const fits = [cols, rows].every((cells) => cells >= 1 && cells <= MAX_CELLS)
  return fits ? { cols, rows } : undefined
}
