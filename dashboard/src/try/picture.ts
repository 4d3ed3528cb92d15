// A picture that was asked about, with the boxes that the model found drawn over it.

import { colour, el } from '../dom.ts';

interface Found {
  box?: number[];
  score?: number;
}

export async function showPicture(parent: HTMLElement, file: File, answer: unknown): Promise<void> {
  if (!file.type.startsWith('image/')) return parent.replaceChildren();
  let picture: ImageBitmap;
  try {
    picture = await createImageBitmap(file);
  } catch {
    return parent.replaceChildren();
  }
  const scale = Math.min(1, 640 / picture.width, 420 / picture.height);
  const [w, h] = [Math.round(picture.width * scale), Math.round(picture.height * scale)];
  const found = boxes(answer);
  const canvas = el('canvas', {
    width: String(w),
    height: String(h),
    role: 'img',
    'aria-label': `The picture, with ${found.length} found`,
  });
  const g = canvas.getContext('2d');
  if (g) {
    g.drawImage(picture, 0, 0, w, h);
    g.strokeStyle = colour('--full');
    g.lineWidth = 2;
    for (const [left, top, right, bottom] of found) {
      // Boxes are in pixels, or in shares of the picture.
      const inPixels = Math.max(left, top, right, bottom) > 2;
      const [sx, sy] = inPixels ? [scale, scale] : [w, h];
      g.strokeRect(left * sx, top * sy, (right - left) * sx, (bottom - top) * sy);
    }
  }
  picture.close();
  parent.replaceChildren(canvas);
}

function boxes(answer: unknown): [number, number, number, number][] {
  const faces = (answer as { faces?: Found[] } | null)?.faces;
  if (!Array.isArray(faces)) return [];
  return faces.flatMap(({ box }) => (box?.length === 4 ? [box as [number, number, number, number]] : []));
}
